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
	// closingTimeout is the time that a shutdown waits for clients to read their last
	// responses and close their connections. This time starts again when a client has
	// closed a connection or read a part of a response. The gate checks only every 200 ms
	// how much a client has read over HTTP/2, so the restart may be late by 200 ms.
	closingTimeout = 1750 * time.Millisecond
	// maxClosingTime is the maximum time that a shutdown waits for clients to read and
	// close, even if closingTimeout starts again and again.
	maxClosingTime = 10 * time.Second
)

// shutdown is a routine of the first loop. In each state it waits for an event:
//
//	state       waits until                                    next state
//	idle        BeginShutdown is called                        stopping
//	stopping    all loops have stopped accepting               silent or serving
//	silent      silentGrace has passed                         serving
//	serving     all requests and tunnels have ended            closing
//	closing     clients have closed their connections          done or serving
//	done
//
// The state stopping lasts at most stopTimeout. Its next state is silent if the client of
// some connection has not sent a byte, and otherwise serving. The state serving waits for
// tunnels only until tunnelDeadline.
//
// In the state closing, clients read the rest of their last responses. The state ends
// after closingTimeout, which starts again when a client makes progress, and after
// maxClosingTime in any case. Meanwhile a client that has not read GOAWAY yet may send
// another request. If a request is open when the state ends, the next state is serving,
// and otherwise done.
type shutdown struct {
	srv    *Server
	handle loop.Handle
	state  shutdownState
	// deadline is the latest time at which the current state ends. There is one
	// exception: while a request is open, the state serving does not end.
	deadline        int64
	tunnelDeadline  int64 // time at which the shutdown stops waiting for tunnels
	closingDeadline int64 // the state closing ends then, even if clients read

	stopped atomic.Int32 // number of loops that have stopped accepting
	silent  atomic.Bool  // some connections have not sent a byte

	beginOnce sync.Once
	endOnce   sync.Once
	done      chan struct{}
}

type shutdownState uint8

const (
	shutdownIdle shutdownState = iota
	shutdownStopping
	shutdownSilent
	shutdownServing
	shutdownClosing
	shutdownDone
)

func (d *shutdown) init(s *Server) {
	d.srv, d.done = s, make(chan struct{})
	d.handle.Bind(s.workers[0].Loop, d)
}

// BeginShutdown begins a shutdown as Shutdown does. It returns immediately, and it does
// not end the loops. The channel done is closed when the shutdown no longer waits for
// requests, tunnels or clients.
func (s *Server) BeginShutdown() (done <-chan struct{}) {
	d := &s.shutdown
	d.beginOnce.Do(func() {
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

// Shutdown closes the listeners and idle connections. It waits until all requests have
// ended. It also waits for tunnels, but not longer than the gate's DrainTunnel. Then it
// ends the loops. When ctx ends, Shutdown closes the remaining connections immediately.
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
			d.state, d.deadline, d.closingDeadline = shutdownClosing, now+int64(closingTimeout), now+int64(maxClosingTime)
		case shutdownClosing:
			if d.busy(now) {
				d.state, d.deadline = shutdownServing, d.tunnelDeadline
				break
			}
			d.end()
		}
	}
	if d.state == shutdownClosing { // a client has closed or read, so the timeout starts again
		d.deadline = min(now+int64(closingTimeout), d.closingDeadline)
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
	case shutdownClosing:
		return d.srv.numClosing() == 0 || now >= d.deadline
	}
	return false
}

// busy reports whether a request is open. Until tunnelDeadline, it also returns true if a
// tunnel is open.
func (d *shutdown) busy(now int64) bool {
	drain := d.srv.gate.Drain
	return drain.Requests() > 0 || drain.Tunnels() > 0 && now < d.tunnelDeadline
}

// end marks the shutdown as done. It is called on the first loop, or after the first loop
// has ended. Only its first call has an effect.
func (d *shutdown) end() {
	d.endOnce.Do(func() {
		d.state = shutdownDone
		close(d.done)
	})
}

// numClosing returns the sum of Protocol.NumClosing for HTTP/1 and HTTP/2: the number of
// connections for which the shutdown waits after the last request.
func (s *Server) numClosing() int {
	n := s.cfg.HTTP1.NumClosing()
	if s.cfg.HTTP2 != nil {
		n += s.cfg.HTTP2.NumClosing()
	}
	return n
}
