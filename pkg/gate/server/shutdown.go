package server

import (
	"context"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// stopTimeout bounds how long a shutdown waits for a loop to begin it: one that
	// has ended does not, and a busy one may have the first requests of many
	// connections before that.
	stopTimeout = 5 * time.Second
	// silentGrace is how long a shutdown waits for the first request of connections
	// that have just been made: it comes right behind them.
	silentGrace = 100 * time.Millisecond
	// unfinishedTimeout bounds how long a shutdown waits for connections after the
	// last request: for a round trip of a GOAWAY, and for clients that read their
	// last answers and close. A cut could take answers along that have not been
	// read; each that closes, and each that takes some, extends the time. That one
	// takes some is noticed up to 200 ms later, and they have 1.5 s.
	unfinishedTimeout = 1750 * time.Millisecond
	unfinishedTotal   = 10 * time.Second
)

// shutdown is a routine of the first loop. It counts what is under way, in these
// states:
//
//	idle       → leaving     BeginShutdown
//	leaving    → silent      all loops have stopped accepting, or one does not answer; on some connections nothing has come yet
//	leaving    → serving     the same, without such connections
//	silent     → serving     silentGrace is over
//	serving    → unfinished  no request is open, and no tunnel that may still last
//	unfinished → serving     a client had begun a request when it read GOAWAY
//	unfinished → over        connections that their clients close are closed, or have had their time
type shutdown struct {
	srv                *Server
	handle             loop.Handle
	state              shutdownState
	deadline           int64 // when the state ends at the latest; of serving: when tunnels may not last any more
	tunnelDeadline     int64 // until of serving, however often that begins
	unfinishedDeadline int64 // of unfinished: when that ends in any case

	stopped atomic.Int32 // loops that have stopped accepting
	silent  atomic.Bool  // nothing has come yet on some connections

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

// BeginShutdown is Shutdown without the end of the loops. It returns at once;
// over is closed when nothing is left to wait for.
func (s *Server) BeginShutdown() (over <-chan struct{}) {
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

// Shutdown closes the listeners and all idle connections, waits for requests
// to end and, for at most the gate's DrainTunnel, for tunnels, and ends the
// loops. When ctx is done first, what is left is cut.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	select {
	case <-s.BeginShutdown():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Close()
	return err
}

// Step is loop.Routine: something has ended, or its time has.
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
	if d.state == shutdownUnfinished { // something has got on
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

// stateEnded reports whether the state has come to its end.
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

// busy reports whether there are requests, or tunnels that may still last.
func (d *shutdown) busy(now int64) bool {
	drain := d.srv.gate.Drain
	return drain.Requests() > 0 || drain.Tunnels() > 0 && now < d.tunnelDeadline
}

// end is called on the first loop, or when that has ended.
func (d *shutdown) end() {
	d.ended.Do(func() {
		d.state = shutdownDone
		close(d.done)
	})
}

// unfinished counts the connections that their clients close.
func (s *Server) unfinished() int {
	n := s.cfg.HTTP1.Unfinished()
	if s.cfg.HTTP2 != nil {
		n += s.cfg.HTTP2.Unfinished()
	}
	return n
}
