package http2

import (
	"net/http"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// interims are the 1xx answers of a request on their way to the client. They
// come on the goroutine that reads the container's connection for all
// requests, so it only notes them; one of their own hands them on, in order.
type interims struct {
	some    atomic.Bool
	mu      sync.Mutex
	waiting []interimAnswer
	running chan struct{} // closed when nothing waits any more; nil = nobody runs
}

type interimAnswer struct {
	status int
	header http.Header
}

// maxInterims bounds how many wait for a client that does not take them; more
// than that are dropped.
const maxInterims = 16

func (q *interims) add(s *stream, status int, header http.Header) {
	q.some.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxInterims {
		return
	}
	q.waiting = append(q.waiting, interimAnswer{status, header})
	if q.running == nil {
		q.running = make(chan struct{})
		go q.run(s, q.running)
	}
}

func (q *interims) run(s *stream, done chan struct{}) {
	defer close(done)
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running = nil
			q.mu.Unlock()
			return
		}
		a := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		if s.ended() == gate.Served {
			h := s.w.Header()
			copyAnswerFields(h, a.header)
			_ = s.toClient(func() error { s.w.WriteHeader(a.status); return nil })
			clear(h)
		}
	}
}

// wait returns when all have been handed on. After it nobody but its caller
// uses the ResponseWriter.
func (q *interims) wait() {
	if !q.some.Load() {
		return
	}
	for {
		q.mu.Lock()
		running := q.running
		q.mu.Unlock()
		if running == nil {
			return
		}
		<-running
	}
}
