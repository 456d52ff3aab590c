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

// Config is what a server needs beside the gate.
type Config struct {
	// Loops is the number of event loops, 1 or more.
	Loops int
	// HTTP1 serves clients first; HTTP2, which may be nil, those that begin with
	// its preface.
	HTTP1, HTTP2 Protocol
	// Upstream says how connections to the container are made.
	Upstream upstream.Config
	// Speaks is what the container is spoken to in.
	Speaks upstream.Protocol
	// Panicked is given the value of a contained panic. It may be nil.
	Panicked func(v any)
	// Kernel is what a simulation runs the loops on; nil: the system.
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

	// handshakeSlots bounds the TLS handshakes that compute, not wait for their clients:
	// more than there are processors would only keep the event loops from theirs.
	handshakeSlots chan struct{}

	shuttingDown atomic.Bool
	shutdown     shutdown
}

// Descriptors that an event loop needs, beside connections: three of its own,
// and one for each port.
const loopDescriptors = 5

// upstreamShare is how many connections to the container each loop may have
// whatever clients hold, so that a request that has been accepted can go out.
func upstreamShare(d *exchange.Descriptors, loops int) int {
	return min(max(d.Budget()/8/loops, 2), 64)
}

// NewServer creates the loops and starts them. Close or Shutdown ends them.
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
				_ = w.Loop.Run() // ends at once
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
				s.shutdown.end() // there is nothing that would
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

// Clock is the clock of Exchange: the time since the process began.
func Clock() time.Duration { return time.Duration(loop.Nanotime()) }

// statsTimeout bounds how long Stats waits for a busy loop.
const statsTimeout = 100 * time.Millisecond

// Stats sums up the connections to the container. It asks each loop, so that
// the request path need not count for it; a loop that does not answer in time
// counts as having nothing idle.
func (s *Server) Stats() gate.UpstreamStats {
	st := gate.UpstreamStats{Dials: s.pools.Dials.Load(), Reuses: s.pools.Reuses.Load(), Replays: s.gate.Replays.Load()}
	st.Open = int(st.Dials - s.pools.Closes.Load())
	idle := make(chan int, len(s.workers))
	for _, w := range s.workers {
		w.Loop.Post(func() {
			n := 0
			for _, p := range w.parts {
				n += p.IdleUpstreams()
			}
			idle <- n
		})
	}
	timer := time.NewTimer(statsTimeout)
	defer timer.Stop()
	for range s.workers {
		select {
		case n := <-idle:
			st.Idle += n
		case <-timer.C:
			return st
		}
	}
	return st
}

// Listening is called, from outside, when the container has begun to accept
// connections: requests that are held try at once.
func (s *Server) Listening() { s.gate.Connects.Hurry() }

// Close cuts everything and waits for the loops to end.
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
