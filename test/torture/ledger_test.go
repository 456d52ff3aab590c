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

// A verdict is the result of a request as its client observed it.
type verdict uint8

const (
	pending  verdict = iota
	served           // a complete 200 with the expected body
	rejected         // a local reply with an error
	cut              // the connection or stream visibly ended before the response was complete
	aborted          // the client aborted it
	notSent          // no connection
	lost             // until the timeout the client received neither a response nor an end of the connection
	wrong            // a response to another request, or a truncated response that looks complete
	verdicts
)

// request describes a request and determines its response.
type request struct {
	id        int
	method    string
	body      []byte
	chunked   bool
	do        string // behaviour of the container
	wait      int    // delay of the response in milliseconds
	size      int64  // sent on a new connection
	fresh     bool   // on a new connection
	cut       bool   // the client aborts it
	pause     bool   // the client stops reading in the middle
	version   int    // the client aborts the request
	mustServe bool   // no fault occurs that would justify another result than 200
}

// mayBeSeen returns how often the request may reach the container. The gate may retry
// an idempotent request once, after a reused connection was closed.
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
	return fmt.Sprintf("%s %d bytes, chunked %v, %s, wait %d ms, response %d bytes, fresh %v, cut %v", q.method, len(q.body), q.chunked, q.do, q.wait, q.size, q.fresh, q.cut)
}

// ledger has a line for every request of an experiment.
type ledger struct {
	mu      sync.Mutex
	lines   []line
	counts  [verdicts]int
	replies map[string]int // local replies by outcome
	notes   []string       // descriptions of the first failures

	draining bool // the gate drains: it must complete each request that the container has received

	write *os.File // pipe to which the container writes request numbers
	read  chan struct{}
}

type line struct {
	request *request
	verdict verdict
	why     string
	seen    int // number of times the container received it
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	l := &ledger{write: w, read: make(chan struct{}), replies: map[string]int{}}
	go func() {
		defer close(l.read)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			id, err := strconv.Atoi(s.Text())
			l.mu.Lock()
			if err != nil || id < 0 || id >= len(l.lines) {
				l.note("the container received a request that was never sent: %q", s.Text())
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

// add adds a request to the ledger and numbers it.
func (l *ledger) add(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.id = len(l.lines)
	l.lines = append(l.lines, line{request: q})
}

// enter records the verdict of a request.
func (l *ledger) enter(q *request, v verdict, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[q.id].verdict, l.lines[q.id].why = v, why
	l.counts[v]++
	if v == rejected {
		l.replies[why]++
	}
	if v == lost || v == wrong || q.mustServe && v != served && v != notSent {
		l.note("request %d (%v): %v, %s", q.id, q, v, why)
	}
	q.body = nil
}

func (l *ledger) note(format string, args ...any) {
	if len(l.notes) < 10 {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// row sums up the ledger. All containers must have ended, because the ledger may be
// incomplete before.
func (l *ledger) row() (r row) {
	_ = l.write.Close()
	<-l.read
	l.mu.Lock()
	defer l.mu.Unlock()
	r.sent, r.counts, r.replies = len(l.lines), l.counts, l.replies
	for _, at := range l.lines {
		r.seen += min(at.seen, 1)
		q := at.request
		if at.seen > q.mayBeSeen() {
			r.twice++
			l.note("request %d (%v) was executed %d times; its client: %v", q.id, q, at.seen, at.verdict)
		} else if at.seen > 1 {
			r.retried++
		}
		if at.verdict == served && at.seen == 0 {
			r.counts[wrong]++
			l.note("request %d (%v) was served but never reached the container", q.id, q)
		}
		if at.seen > 0 && at.verdict == cut {
			r.broken++
			if l.draining {
				l.note("request %d (%v), HTTP/%d, reached the container and was cut: %s", q.id, q, q.version, at.why)
			}
		}
		if q.mustServe && at.verdict != served && at.verdict != notSent {
			r.unserved++
		}
	}
	r.notes = l.notes
	return r
}

func (v verdict) String() string {
	return [verdicts]string{"pending", "served", "rejected", "cut", "aborted", "not sent", "lost", "wrong response"}[v]
}
