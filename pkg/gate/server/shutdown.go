package server

import (
	"context"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

const (
	// leaveTimeout bounds how long a shutdown waits for a loop to begin it: one that
	// has ended does not, and a busy one may have the first requests of many
	// connections before that.
	leaveTimeout = 5 * time.Second
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
	srv    *Server
	handle loop.Handle
	state  shutdownState
	until  int64 // when the state ends at the latest; of serving: when tunnels may not last any more
	grace  int64 // until of serving, however often that begins
	latest int64 // of unfinished: when that ends in any case

	left   atomic.Int32 // loops that have stopped accepting
	silent atomic.Bool  // nothing has come yet on some connections

	begun sync.Once
	ended sync.Once
	over  chan struct{}
}

type shutdownState uint8

const (
	shutdownIdle shutdownState = iota
	shutdownLeaving
	shutdownSilent
	shutdownServing
	shutdownUnfinished
	shutdownOver
)

func (d *shutdown) init(s *Server) {
	d.srv, d.over = s, make(chan struct{})
	d.handle.Bind(s.workers[0].Loop, d)
}

// BeginShutdown is Shutdown without the end of the loops. It returns at once;
// over is closed when nothing is left to wait for.
func (s *Server) BeginShutdown() (over <-chan struct{}) {
	d := &s.shutdown
	d.begun.Do(func() {
		s.leaving.Store(true)
		first := s.workers[0].Loop
		first.Post(func() {
			d.state, d.until = shutdownLeaving, first.Now()+int64(leaveTimeout)
			d.Step()
		})
		for _, w := range s.workers {
			w.Loop.Post(func() {
				if w.leave() {
					d.silent.Store(true)
				}
				d.left.Inc()
				d.handle.Wake()
			})
		}
	})
	return d.over
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
	for d.done(now) {
		switch d.state {
		case shutdownLeaving:
			if d.silent.Load() {
				d.state, d.until = shutdownSilent, now+int64(silentGrace)
				break
			}
			d.beginServing(now)
		case shutdownSilent:
			d.beginServing(now)
		case shutdownServing:
			d.state, d.until, d.latest = shutdownUnfinished, now+int64(unfinishedTimeout), now+int64(unfinishedTotal)
		case shutdownUnfinished:
			if d.serves(now) {
				d.state, d.until = shutdownServing, d.grace
				break
			}
			d.end()
		}
	}
	if d.state == shutdownUnfinished { // something has got on
		d.until = min(now+int64(unfinishedTimeout), d.latest)
	}
	if d.until > now {
		d.handle.SetDeadline(d.until)
	}
}

func (d *shutdown) beginServing(now int64) {
	d.grace = now + int64(d.srv.gate.DrainTunnel)
	d.state, d.until = shutdownServing, d.grace
}

// done reports whether the state has come to its end.
func (d *shutdown) done(now int64) bool {
	switch d.state {
	case shutdownLeaving:
		return int(d.left.Load()) == len(d.srv.workers) || now >= d.until
	case shutdownSilent:
		return now >= d.until
	case shutdownServing:
		return !d.serves(now)
	case shutdownUnfinished:
		return d.srv.unfinished() == 0 || now >= d.until
	}
	return false
}

// serves reports whether there are requests, or tunnels that may still last.
func (d *shutdown) serves(now int64) bool {
	drain := d.srv.gate.Drain
	return drain.Requests() > 0 || drain.Tunnels() > 0 && now < d.grace
}

// end is called on the first loop, or when that has ended.
func (d *shutdown) end() {
	d.ended.Do(func() {
		d.state = shutdownOver
		close(d.over)
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
