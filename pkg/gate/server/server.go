package server

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Config configures a Server.
type Config struct {
	// Loops is the number of event loops, 1 or more.
	Loops int
	// HTTP1 serves new connections. HTTP2 serves connections that begin with the HTTP/2
	// preface or select h2 by ALPN. If HTTP2 is nil, the server supports only HTTP/1.
	HTTP1, HTTP2 Protocol
	// Upstream configures connections to the container.
	Upstream upstream.Config
	// Speaks is the protocol of the container.
	Speaks upstream.Protocol
	// Panicked is called with the value of a recovered panic. It may be nil.
	Panicked func(v any)
	// Kernel runs the loops on a simulated kernel; nil = the system.
	Kernel loop.Kernel
}

// Server serves any number of listeners on its event loops and forwards to one
// container.
type Server struct {
	gate    *exchange.Gate
	cfg     Config
	choice  upstream.Choice
	pools   upstream.Stats
	workers []*Worker
	ran     sync.WaitGroup

	// handshakeSlots limits concurrent TLS handshakes to GOMAXPROCS, so that they leave
	// CPU time to the event loops. A handshake that waits for its client holds no slot.
	handshakeSlots chan struct{}

	shuttingDown atomic.Bool
	shutdown     shutdown
}

// loopDescriptors is the number of descriptors of an event loop without connections:
// three for the loop itself (see loop.New), and two for listeners. There are two
// listeners if the gate has a plaintext port and a TLS port.
const loopDescriptors = 5

// upstreamShare returns the number of upstream connections guaranteed to each loop.
// Without a guarantee, client connections could take all descriptors, and accepted
// requests could not be forwarded.
func upstreamShare(d *exchange.Descriptors, loops int) int {
	return min(max(d.Budget()/8/loops, 2), 64)
}

// NewServer creates and starts the loops. End them with Close or Shutdown.
func NewServer(g *exchange.Gate, c Config) (*Server, error) {
	if c.Loops < 1 {
		return nil, fmt.Errorf("event loops %d: want 1 or more", c.Loops)
	}
	if a := c.Upstream.Address; !a.IsValid() || a.Port() == 0 {
		return nil, fmt.Errorf("upstream %s: want an address with a port", a)
	}
	s := &Server{gate: g, cfg: c, handshakeSlots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	if s.choice.Fix(c.Speaks); c.HTTP2 == nil {
		s.choice.Fix(upstream.HTTP1)
	}
	share := upstreamShare(g.Descriptors, c.Loops)
	g.Descriptors.Reserve(c.Loops * (loopDescriptors + share))
	for range c.Loops {
		l, err := s.newLoop()
		if err != nil {
			for _, w := range s.workers {
				w.Loop.Close()
				_ = w.Loop.Run() // Run ends immediately
			}
			return nil, err
		}
		s.workers = append(s.workers, newWorker(s, l, share))
	}
	g.Connects.Start(s.workers[0].Loop.Nanotime())
	s.shutdown.init(s)
	for i, w := range s.workers {
		s.ran.Go(func() {
			if err := w.Loop.Run(); err != nil {
				w.ReportPanic(err)
			}
			if i == 0 {
				s.shutdown.end() // the first loop has ended, so Step cannot end the shutdown
			}
		})
	}
	return s, nil
}

func (s *Server) newLoop() (*loop.Loop, error) {
	if k := s.cfg.Kernel; k != nil {
		return loop.NewSimulated(k), nil
	}
	return loop.New()
}

// Clock is the clock of exchanges: the time since the process began.
func Clock() time.Duration { return time.Duration(loop.Nanotime()) }

// statsTimeout is the maximum time to wait for the response of a busy loop.
const statsTimeout = 100 * time.Millisecond

// Stats returns the statistics of upstream connections. A loop that does not respond
// within statsTimeout counts as having no idle connections.
func (s *Server) Stats() gate.UpstreamStats {
	st := gate.UpstreamStats{Dials: s.pools.Dials.Load(), Reuses: s.pools.Reuses.Load(), Retries: s.gate.Retries.Load()}
	st.Open = int(st.Dials - s.pools.Closes.Load())
	st.Idle, _ = s.onLoops(statsTimeout, func(w *Worker) (n int) {
		for _, e := range w.engines {
			n += e.IdleUpstreams()
		}
		return n
	})
	return st
}

// CloseIdleUpstreams closes the idle connections to the container, on all loops that
// respond within statsTimeout.
func (s *Server) CloseIdleUpstreams() {
	s.onLoops(statsTimeout, func(w *Worker) int {
		for _, e := range w.engines {
			e.CloseIdleUpstreams()
		}
		return 0
	})
}

// onLoops calls f on each loop and waits up to timeout for the results. It returns the
// sum of the results, and how many loops have responded.
func (s *Server) onLoops(timeout time.Duration, f func(w *Worker) int) (sum, responded int) {
	results := make(chan int, len(s.workers))
	for _, w := range s.workers {
		w.Loop.Post(func() { results <- f(w) })
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for range s.workers {
		select {
		case n := <-results:
			sum += n
			responded++
		case <-timer.C:
			return sum, responded
		}
	}
	return sum, responded
}

// Listening is called when a readiness check has connected to the container. The connect
// queue then makes its next attempt immediately.
func (s *Server) Listening() { s.gate.Connects.Hurry() }

// Close closes all connections without waiting for requests, and waits until the loops
// have ended.
func (s *Server) Close() {
	s.shuttingDown.Store(true)
	for _, w := range s.workers {
		w.Loop.Close()
	}
	s.ran.Wait()
	for _, w := range s.workers {
		w.closeListeners()
	}
}
