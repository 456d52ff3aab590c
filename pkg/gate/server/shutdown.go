package server

import (
	"context"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// stopTimeout is the maximum time that a shutdown waits for all loops to report that
	// they stopped accepting. Without it, a loop that has ended would block the shutdown.
	stopTimeout = 5 * time.Second
	// silentGrace is the time that a shutdown waits for the first request on new
	// connections. A client usually sends it immediately.
	silentGrace = 100 * time.Millisecond
	// unfinishedTimeout is the time that a shutdown waits for clients to read their last
	// responses and close their connections. Each closed connection and each read
	// restarts it. A read may be noticed up to 200 ms late.
	unfinishedTimeout = 1750 * time.Millisecond
	unfinishedTotal   = 10 * time.Second
)

// shutdown is a routine of the first loop. Its states:
//
//	idle       → stopping    BeginShutdown
//	stopping   → silent      all loops stopped, or stopTimeout; some connections sent no byte
//	stopping   → serving     all loops stopped, or stopTimeout; all connections sent a byte
//	silent     → serving     silentGrace has passed
//	serving    → unfinished  no open request, and no tunnel before its deadline
//	unfinished → serving     a client had begun a request before it read GOAWAY
//	unfinished → done        clients have closed their connections, or the timeout has passed
type shutdown struct {
	srv                *Server
	handle             loop.Handle
	state              shutdownState
	deadline           int64 // deadline of the present state; in serving: tunnelDeadline
	tunnelDeadline     int64 // end of the wait for tunnels
	unfinishedDeadline int64 // latest end of the present unfinished state

	stopped atomic.Int32 // number of loops that have stopped accepting
	silent  atomic.Bool  // some connections have not sent a byte

	begun sync.Once
	ended sync.Once
	done  chan struct{}
}

type shutdownState uint8

const (
	shutdownIdle shutdownState = iota
	shutdownStopping
	shutdownSilent
	shutdownServing
	shutdownUnfinished
	shutdownDone
)

func (d *shutdown) init(s *Server) {
	d.srv, d.done = s, make(chan struct{})
	d.handle.Bind(s.workers[0].Loop, d)
}

// BeginShutdown begins a shutdown as Shutdown does, but returns immediately and does not
// end the loops. done is closed when nothing is left to wait for.
func (s *Server) BeginShutdown() (done <-chan struct{}) {
	d := &s.shutdown
	d.begun.Do(func() {
		s.shuttingDown.Store(true)
		first := s.workers[0].Loop
		first.Post(func() {
			d.state, d.deadline = shutdownStopping, first.Now()+int64(stopTimeout)
			d.Step()
		})
		for _, w := range s.workers {
			w.Loop.Post(func() {
				if w.stopAccepting() {
					d.silent.Store(true)
				}
				d.stopped.Inc()
				d.handle.Wake()
			})
		}
	})
	return d.done
}

// Shutdown closes the listeners and idle connections. It waits for requests to end, and
// for tunnels up to the gate's DrainTunnel. Then it ends the loops. When ctx ends, it
// closes the remaining connections immediately.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	select {
	case <-s.BeginShutdown():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Close()
	return err
}

// Step implements loop.Routine.
func (d *shutdown) Step() {
	now := d.handle.Loop().Now()
	for d.stateEnded(now) {
		switch d.state {
		case shutdownStopping:
			if d.silent.Load() {
				d.state, d.deadline = shutdownSilent, now+int64(silentGrace)
				break
			}
			d.beginServing(now)
		case shutdownSilent:
			d.beginServing(now)
		case shutdownServing:
			d.state, d.deadline, d.unfinishedDeadline = shutdownUnfinished, now+int64(unfinishedTimeout), now+int64(unfinishedTotal)
		case shutdownUnfinished:
			if d.busy(now) {
				d.state, d.deadline = shutdownServing, d.tunnelDeadline
				break
			}
			d.end()
		}
	}
	if d.state == shutdownUnfinished { // a client has closed or read, so the timeout starts again
		d.deadline = min(now+int64(unfinishedTimeout), d.unfinishedDeadline)
	}
	if d.deadline > now {
		d.handle.SetDeadline(d.deadline)
	}
}

func (d *shutdown) beginServing(now int64) {
	d.tunnelDeadline = now + int64(d.srv.gate.DrainTunnel)
	d.state, d.deadline = shutdownServing, d.tunnelDeadline
}

func (d *shutdown) stateEnded(now int64) bool {
	switch d.state {
	case shutdownStopping:
		return int(d.stopped.Load()) == len(d.srv.workers) || now >= d.deadline
	case shutdownSilent:
		return now >= d.deadline
	case shutdownServing:
		return !d.busy(now)
	case shutdownUnfinished:
		return d.srv.unfinished() == 0 || now >= d.deadline
	}
	return false
}

// busy reports whether there are requests, or tunnels whose deadline has not passed.
func (d *shutdown) busy(now int64) bool {
	drain := d.srv.gate.Drain
	return drain.Requests() > 0 || drain.Tunnels() > 0 && now < d.tunnelDeadline
}

// end ends the shutdown. It is called on the first loop, or after that loop has ended.
func (d *shutdown) end() {
	d.ended.Do(func() {
		d.state = shutdownDone
		close(d.done)
	})
}

// unfinished returns the number of connections that clients should close.
func (s *Server) unfinished() int {
	n := s.cfg.HTTP1.Unfinished()
	if s.cfg.HTTP2 != nil {
		n += s.cfg.HTTP2.Unfinished()
	}
	return n
}
