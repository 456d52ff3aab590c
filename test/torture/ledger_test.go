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

// A requestResult is the result of a request at its client.
type requestResult uint8

const (
	pending       requestResult = iota
	served                      // a complete 200 with the expected body
	rejected                    // a local reply with an error
	cut                         // visibly truncated
	aborted                     // the client aborted it
	notSent                     // no connection
	lost                        // neither a response nor an end of the connection until the timeout
	wrongResponse               // another request's response, or a truncated response that looks complete
	numResults
)

type request struct {
	id        int
	method    string
	body      []byte
	chunked   bool
	do        string // behaviour of the container
	wait      int    // delay of the response in milliseconds
	size      int64  // response bytes after the first line
	newConn   bool   // sent on a new connection
	cut       bool   // the client aborts it
	pause     bool   // the client stops reading in the middle
	version   int    // HTTP version, 1 or 2
	mustServe bool   // no fault justifies another status than 200
}

// mayBeSeen returns how often the container may receive the request. The gate may retry
// an idempotent request once, after the close of a reused connection.
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
	return fmt.Sprintf("%s %d bytes, chunked %v, %s, wait %d ms, response %d bytes, fresh %v, cut %v", q.method, len(q.body), q.chunked, q.do, q.wait, q.size, q.newConn, q.cut)
}

type ledger struct {
	mu      sync.Mutex
	lines   []line
	counts  [numResults]int
	replies map[string]int // local replies by outcome
	notes   []string       // of the first failures

	draining bool // the gate must complete each request that the container has received

	write *os.File // pipe for the numbers of the requests that the container receives
	read  chan struct{}
}

type line struct {
	request *request
	result  requestResult
	reason  string
	seen    int // how often the container received the request
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
				l.counts[wrongResponse]++
			} else {
				l.lines[id].seen++
			}
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = w.Close() })
	return l
}

func (l *ledger) add(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.id = len(l.lines)
	l.lines = append(l.lines, line{request: q})
}

func (l *ledger) enter(q *request, v requestResult, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[q.id].result, l.lines[q.id].reason = v, reason
	l.counts[v]++
	if v == rejected {
		l.replies[reason]++
	}
	if v == lost || v == wrongResponse || q.mustServe && v != served && v != notSent {
		l.note("request %d (%v): %v, %s", q.id, q, v, reason)
	}
	q.body = nil
}

func (l *ledger) note(format string, args ...any) {
	if len(l.notes) < 10 {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// row sums up the ledger. All containers must have ended, because only then is the ledger
// complete.
func (l *ledger) row() (r row) {
	_ = l.write.Close()
	<-l.read
	l.mu.Lock()
	defer l.mu.Unlock()
	r.sent, r.counts, r.replies = len(l.lines), l.counts, l.replies
	for _, entry := range l.lines {
		r.seen += min(entry.seen, 1)
		q := entry.request
		if entry.seen > q.mayBeSeen() {
			r.twice++
			l.note("request %d (%v) was executed %d times; its client: %v", q.id, q, entry.seen, entry.result)
		} else if entry.seen > 1 {
			r.retried++
		}
		if entry.result == served && entry.seen == 0 {
			r.counts[wrongResponse]++
			l.note("request %d (%v) was served but never reached the container", q.id, q)
		}
		if entry.seen > 0 && entry.result == cut {
			r.broken++
			if l.draining {
				l.note("request %d (%v), HTTP/%d, reached the container and was cut: %s", q.id, q, q.version, entry.reason)
			}
		}
		if q.mustServe && entry.result != served && entry.result != notSent {
			r.unserved++
		}
	}
	r.notes = l.notes
	return r
}

func (v requestResult) String() string {
	return [numResults]string{"pending", "served", "rejected", "cut", "aborted", "not sent", "lost", "wrong response"}[v]
}
