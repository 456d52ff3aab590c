package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/queuegate/queuegate/bench/internal/clock"
)

// A Server runs a Model in real time behind vLLM's HTTP API. All times are readings of
// package clock.
type Server struct {
	// Oracle returns the expected output length of a request. If Oracle is set, requests
	// wait outside the engine, in order of arrival, until Model.Fits accepts them with
	// these lengths. A request whose header x-slo-ttft-ms leaves too little time for the
	// first token is rejected with 504. nil = requests enter the engine at once.
	Oracle Lengths
	// OnEnd is called for each request that the engine has ended. id is the header
	// X-Request-Id. OnEnd must not block. nil = not called.
	OnEnd func(id string, r *Request)

	seed    uint64
	http    http.Server
	listen  net.Listener
	wake    chan struct{} // capacity 1
	stopped chan struct{}
	loop    sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	model     *Model
	queue     []*submission // the oracle's queue
	created   uint64        // number of random output lengths so far; it seeds the next one
	first     histogram
	tokenGaps histogram
	e2e       histogram
	onFlux    func(inFlight int)
}

// submission is a request in Server.queue. If Server.Oracle is set, requests wait in this
// queue until the engine has space for them.
type submission struct {
	*Request
	deadline time.Duration // 0 = no deadline
	decided  chan bool     // the decision: true = admitted, false = rejected
}

// NewServer returns a Server for an engine. The parameter seed determines the random
// output lengths, which requests without ignore_eos get.
func NewServer(c Config, seed uint64) (*Server, error) {
	m, err := NewModel(c)
	if err != nil {
		return nil, err
	}
	s := &Server{seed: seed, model: m, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	s.first, s.tokenGaps, s.e2e = newHistogram(firstTokenBounds), newHistogram(betweenBounds), newHistogram(e2eBounds)
	return s, nil
}

// Start listens on an address such as 127.0.0.1:0, and serves until Stop is called.
func (s *Server) Start(address string) error {
	var err error
	if s.listen, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	s.http.Handler = s.routes()
	s.loop.Go(s.run)
	s.loop.Go(func() { _ = s.http.Serve(s.listen) }) // returns after Stop
	return nil
}

// Address returns the listening address.
func (s *Server) Address() string { return s.listen.Addr().String() }

// Port returns the listening port.
func (s *Server) Port() int { return s.listen.Addr().(*net.TCPAddr).Port }

// Stop closes all connections and ends the engine.
func (s *Server) Stop() {
	close(s.stopped)
	_ = s.http.Close()
	s.loop.Wait()
}

// OnFlux sets a function that is called, with the lock held, whenever the number of
// requests in the engine changes.
func (s *Server) OnFlux(f func(inFlight int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onFlux = f
}

// Now returns the current metrics.
func (s *Server) Now() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Now()
}

// InFlight returns the number of requests in the engine.
func (s *Server) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.InFlight()
}

func now() time.Duration { return time.Duration(clock.Now()) }

func (s *Server) flux() {
	if s.onFlux != nil {
		s.onFlux(s.model.InFlight())
	}
}

// run is the loop of the engine.
func (s *Server) run() {
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	for {
		s.mu.Lock()
		begun := now()
		s.admitQueued(begun)
		takes, busy := s.model.Begin(begun)
		s.mu.Unlock()
		if !busy {
			select {
			case <-s.wake:
				continue
			case <-s.stopped:
				return
			}
		}
		timer.Reset(max(takes-(now()-begun), 0))
		select {
		case <-timer.C:
		case <-s.stopped:
			return
		}
		s.mu.Lock()
		s.model.End(now())
		s.flux()
		s.mu.Unlock()
	}
}

// admitQueued admits the requests of the oracle's queue that fit, in order. The caller
// holds mu and is between two steps.
func (s *Server) admitQueued(at time.Duration) {
	for len(s.queue) > 0 {
		h := s.queue[0]
		isLate := h.deadline > 0 && at+s.model.FirstToken(h.Request) > h.deadline
		if !isLate && !s.model.Fits(h.Request, s.Oracle) {
			return
		}
		s.queue = s.queue[1:]
		if !isLate {
			_ = s.model.Add(h.Request, at) // submit has checked the request, so there is no error
		}
		h.decided <- !isLate
	}
}

// errLate is returned if the oracle rejects a request.
var errLate = errors.New("the deadline cannot be met")

// submit passes a request to the engine. With an oracle it waits until the oracle has
// admitted or rejected the request.
func (s *Server) submit(ctx context.Context, r *Request, deadline time.Duration) error {
	s.mu.Lock()
	if s.Oracle == nil {
		err := s.model.Add(r, now())
		s.flux()
		s.mu.Unlock()
		s.stir()
		return err
	}
	if err := s.model.check(r); err != nil {
		s.mu.Unlock()
		return err
	}
	h := &submission{Request: r, deadline: deadline, decided: make(chan bool, 1)}
	s.queue = append(s.queue, h)
	s.mu.Unlock()
	s.stir()
	select {
	case admitted := <-h.decided:
		if !admitted {
			return errLate
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		if i := slices.Index(s.queue, h); i >= 0 {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		s.mu.Unlock()
		// The context has ended, so the caller aborts the request. The abort has no
		// effect if the request was never admitted.
		return nil
	}
}

func (s *Server) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave aborts a request unless it has finished.
func (s *Server) leave(id string, r *Request) {
	s.mu.Lock()
	s.model.Abort(r, now())
	s.flux()
	s.mu.Unlock()
	s.stir()
	if s.OnEnd != nil {
		s.OnEnd(id, r)
	}
}

// observe records the latency of one token. The caller holds mu.
func (s *Server) observe(r *Request, previous time.Duration, last bool) {
	at := now()
	if previous == 0 {
		s.first.add((at - r.Arrived).Seconds())
	} else {
		s.tokenGaps.add((at - previous).Seconds())
	}
	if last {
		s.e2e.add((at - r.Arrived).Seconds())
	}
}
