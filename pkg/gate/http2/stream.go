package http2

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// stream is one request while it is under way. Three goroutines touch it: the
// one that serves it, the one that uploads its body, and its clock.
type stream struct {
	srv  *Server
	gate *gate.Gate
	conn *conn
	w    http.ResponseWriter
	r    *http.Request
	head head
	body upload

	ctx    context.Context // of the request to the container
	cancel context.CancelFunc

	exchange gate.Exchange
	observed bool
	slot     bool
	answered bool // the final head is on its way to the client
	said     interims
	giveUp   int64 // when it is not held any longer; 0 = has not been held

	pooled  bool          // what carries it to an HTTP/1.1 container has carried others
	sent    atomic.Bool   // the head, or some byte of it, has gone to the container
	verdict atomic.Uint32 // the Outcome of a clock that ran out; Served = none

	mu      sync.Mutex
	clocks  gate.Clocks
	timer   *time.Timer
	writing bool // the serving goroutine gives bytes to the client
	over    bool // the ResponseWriter must not be used any more
}

func now() int64 { return loop.Nanotime() }

// begin counts the request and starts its clocks.
func (s *stream) begin() {
	s.gate.Drain.Enter()
	s.clocks.Begin(&s.gate.Config, now())
	var lines []byte
	if o := s.gate.Observer; o != nil {
		s.describe()
		o.Begin(&s.exchange)
		s.observed = true
		lines = s.exchange.TraceLines
	}
	s.head.rewrite(s.conn.peer.Addr(), lines)

	parent := s.r.Context()
	if s.gate.HardConcurrency {
		parent = context.WithoutCancel(parent)
	}
	s.ctx, s.cancel = context.WithCancel(parent)
	if next := s.clocks.Next(); next != 0 {
		s.mu.Lock()
		s.timer = time.AfterFunc(time.Duration(next-s.clocks.Arrived), s.tick)
		s.mu.Unlock()
	}
}

// describe fills the exchange with what the head says.
func (s *stream) describe() {
	h := &s.head
	s.exchange = gate.Exchange{
		Protocol: "HTTP/2.0", Method: bytesOf(s.r.Method), Target: bytesOf(s.r.RequestURI), Host: bytesOf(h.host),
		UserAgent: h.probe.UserAgent, Peer: s.conn.peer, Encrypted: s.conn.encrypted, Fields: h, Proxied: h.proxied,
		RouteTag: h.routeTag, DefaultRoute: h.defaultRoute, HasDefaultRoute: h.hasDefaultRoute,
		Arrived: time.Duration(now()),
	}
	if h.traced {
		s.exchange.Trace = &h.trace
	}
}

// end gives the slot back and tells how the request ended. It is the only way
// out of begin.
func (s *stream) end(outcome gate.Outcome) {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	if s.slot {
		s.slot = false
		s.gate.Admission.End()
	}
	s.gate.Drain.Leave()
	if s.observed {
		s.observed = false
		x := &s.exchange
		x.Outcome = outcome
		if x.Status == 0 {
			x.Status = outcome.Meaning().Status
		}
		x.RequestBody = s.body.taken.Load()
		x.Ended = time.Duration(now())
		s.gate.Observer.End(x)
	}
}

// tick runs when a clock may have run out.
func (s *stream) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	at := now()
	o, expired := s.clocks.Expired(at)
	if !expired {
		s.rearm(at)
		return
	}
	s.verdict.Store(uint32(o))
	s.cancel()
	s.stopReading()
	if s.writing {
		// The client does not read: only a reset ends the wait for it.
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Unix(1, 0))
	}
}

// stopReading ends the wait for more of the request's body, for good: without
// that the transport would not notice that it has been cancelled. The caller
// holds mu.
func (s *stream) stopReading() {
	_ = http.NewResponseController(s.w).SetReadDeadline(time.Unix(1, 0))
}

// rearm sets the timer for the next clock. The caller holds mu.
func (s *stream) rearm(at int64) {
	if next := s.clocks.Next(); next != 0 {
		s.timer.Reset(time.Duration(next - at))
	}
}

// moved says that bytes have gone either way.
func (s *stream) moved() {
	if s.gate.IdleTimeout == 0 {
		return
	}
	s.mu.Lock()
	s.clocks.Moved(now())
	s.mu.Unlock()
}

// started says that an answer has begun.
func (s *stream) started() {
	if s.gate.ResponseStartTimeout == 0 {
		return
	}
	s.mu.Lock()
	s.clocks.Started()
	s.mu.Unlock()
}

// expired is the outcome of the clock that ran out; Served = none has.
func (s *stream) expired() gate.Outcome { return gate.Outcome(s.verdict.Load()) }

// ended tells why the request cannot go on, if it is for the gate's or the
// client's sake; Served = it is not.
func (s *stream) ended() gate.Outcome {
	if o := s.expired(); o != gate.Served {
		return o
	}
	if s.r.Context().Err() != nil {
		return gate.ClientGone
	}
	return gate.Served
}

// toClient calls give, which hands bytes to the client and may wait for it,
// unless a clock has run out. A clock that runs out meanwhile ends the wait.
func (s *stream) toClient(give func() error) error {
	s.mu.Lock()
	if s.expired() != gate.Served {
		s.mu.Unlock()
		return context.DeadlineExceeded
	}
	s.writing = true
	s.mu.Unlock()
	err := give()
	s.mu.Lock()
	s.writing = false
	s.mu.Unlock()
	return err
}

// stamp notes an instant for the observer, if there is one.
func (s *stream) stamp(at *time.Duration) {
	if s.observed {
		*at = time.Duration(now())
	}
}
