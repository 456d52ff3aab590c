package torture

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/queuegate/queuegate/test/torture/script"
)

// A verdict is what became of a request, as its client saw it.
type verdict uint8

const (
	pending   verdict = iota
	answered          // 200, whole, and its own
	refused           // an error that the gate answered with
	cut               // the connection or stream ended visibly before the answer did
	abandoned         // the client itself cut it
	notSent           // no connection
	lost              // neither an answer nor an end
	wrong             // an answer that is not its own
	verdicts
)

// request is what a client sends. Its answer is known beforehand.
type request struct {
	id      int
	method  string
	body    []byte
	chunked bool
	do      string // behaviour of the container
	wait    int    // milliseconds that it takes
	size    int64  // of the answer
	fresh   bool   // on a connection of its own
	cut     bool   // the client cuts it
	pause   bool   // the client stops reading in the middle
	version int    // of HTTP
	owed    bool   // nothing happens that would excuse another end than 200
}

// mayBeSeen is how often it may reach the container: an idempotent one is sent
// once more where a kept connection turns out to be closed.
func (q *request) mayBeSeen() int {
	if q.method == "POST" {
		return 1
	}
	return 2
}

func (q *request) check(read interface{ Read([]byte) (int, error) }) error {
	n, sum := int64(len(q.body)), script.Sum(q.body)
	if q.do == script.Early {
		n, sum = 0, 0
	}
	return script.Check(read, q.id, n, sum, q.size)
}

func (q *request) String() string {
	return fmt.Sprintf("%s %d bytes, chunked %v, %s, wait %d ms, answer %d bytes, fresh %v, cut %v", q.method, len(q.body), q.chunked, q.do, q.wait, q.size, q.fresh, q.cut)
}

// ledger has a line for every request of an experiment.
type ledger struct {
	mu      sync.Mutex
	lines   []line
	counts  [verdicts]int
	refusal map[string]int // by outcome
	notes   []string       // of the first requests that went wrong

	draining bool // a request that the container has seen should be answered

	write *os.File // what a container writes its requests to
	read  chan struct{}
}

type line struct {
	request *request
	verdict verdict
	why     string
	seen    int // times that the container has seen it
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	l := &ledger{write: w, read: make(chan struct{}), refusal: map[string]int{}}
	go func() {
		defer close(l.read)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			id, err := strconv.Atoi(s.Text())
			l.mu.Lock()
			if err != nil || id < 0 || id >= len(l.lines) {
				l.note("the container has seen a request that was never sent: %q", s.Text())
				l.counts[wrong]++
			} else {
				l.lines[id].seen++
			}
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = w.Close() })
	return l
}

// add enters a request and numbers it.
func (l *ledger) add(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.id = len(l.lines)
	l.lines = append(l.lines, line{request: q})
}

// enter notes what became of it.
func (l *ledger) enter(q *request, v verdict, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[q.id].verdict, l.lines[q.id].why = v, why
	l.counts[v]++
	if v == refused {
		l.refusal[why]++
	}
	if v == lost || v == wrong || q.owed && v != answered && v != notSent {
		l.note("request %d (%v): %v, %s", q.id, q, v, why)
	}
	q.body = nil
}

func (l *ledger) note(format string, args ...any) {
	if len(l.notes) < 10 {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// row adds up. The containers have ended, so that all they wrote is there.
func (l *ledger) row() (r row) {
	_ = l.write.Close()
	<-l.read
	l.mu.Lock()
	defer l.mu.Unlock()
	r.sent, r.counts, r.refusal = len(l.lines), l.counts, l.refusal
	for _, at := range l.lines {
		r.seen += min(at.seen, 1)
		q := at.request
		if at.seen > q.mayBeSeen() {
			r.twice++
			l.note("request %d (%v) was executed %d times; its client: %v", q.id, q, at.seen, at.verdict)
		} else if at.seen > 1 {
			r.replayed++
		}
		if at.verdict == answered && at.seen == 0 {
			r.counts[wrong]++
			l.note("request %d (%v) was answered and never seen", q.id, q)
		}
		if at.seen > 0 && at.verdict == cut {
			r.broken++
			if l.draining {
				l.note("request %d (%v), HTTP/%d, was seen and cut: %s", q.id, q, q.version, at.why)
			}
		}
		if q.owed && at.verdict != answered && at.verdict != notSent {
			r.owed++
		}
	}
	r.notes = l.notes
	return r
}

func (v verdict) String() string {
	return [verdicts]string{"pending", "answered", "refused", "cut", "abandoned", "not sent", "lost", "wrong answer"}[v]
}
