package http1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Config is what the engine needs beside the gate.
type Config struct {
	// Upstream is the user container's address.
	Upstream netip.AddrPort
	// Loops is the number of event loops, 1 or more.
	Loops int
	// Part makes what serves HTTP/2 on the loop l, and finds connections to the container over either protocol. d dials for the
	// loop, http1 is its pool of HTTP/1.1, up counts. nil: there is HTTP/1 alone.
	Part func(l *loop.Loop, d *upstream.Dialer, http1 gate.Connector, up *upstream.Stats) Part
	// PartConnections counts the clients' connections of all Parts. After the last
	// request a shutdown waits for a moment until they have closed. It may be nil.
	PartConnections func() int
	// UpstreamRefused is called on a loop when the container begins to refuse
	// connections. It may be nil.
	UpstreamRefused func()
	// Choice is what is known of the protocol that the container speaks; nil
	// where it is not needed.
	Choice *upstream.Choice
	// HeadTimeout bounds how long a started request head may take; 0 = 60 s.
	HeadTimeout time.Duration
	// UpstreamTLS makes connections to the container sessions of TLS; nil: they
	// are plain.
	UpstreamTLS *tls.Config
	// UpstreamTLSFailed is told, on a loop, why no session came about. It may be
	// nil.
	UpstreamTLSFailed func(error)
	// Panicked is told of a contained panic, with its value. It may be nil.
	Panicked func(v any)
}

// Part is another protocol on a loop. Its methods are called there.
type Part interface {
	// Adopt takes over a connection, of which read has been read.
	Adopt(fd int, peer netip.AddrPort, layer *loop.Layer, read []byte)
	// Leave takes no further requests and closes what is idle.
	Leave()
	// Connector finds connections to the container.
	Connector() gate.Connector
	// IdleUpstreams counts the connections to the container that carry nothing.
	IdleUpstreams() int
}

// Server is the HTTP/1 engine: it serves any number of listeners on its event
// loops and forwards to one container.
type Server struct {
	gate    *gate.Gate
	cfg     Config
	engines []*engine
	ran     sync.WaitGroup

	adopted   atomic.Uint32
	departure chan struct{} // something has ended while shutting down
	leaving   atomic.Bool
	pools     upstream.Stats
	dialling  upstream.Config
	idleAge   gate.IdleAge
	lingering atomic.Int64 // connections that are closed slowly
}

// engine is the part of a Server that belongs to one loop.
type engine struct {
	srv       *Server
	gate      *gate.Gate
	cfg       *Config
	loop      *loop.Loop
	host      []byte // Host where a request has none
	dialer    upstream.Dialer
	pool      Pool
	connector gate.Connector
	part      Part // nil = there is none
	bufs      buffers
	sessions  loop.Spares[session]
	listeners []*listener
	silent    connList // client connections on which nothing has come yet
	reading   connList // those that wait for the rest of a head
	conns     connList // all others
	date      dateCache
}

// NewServer creates the loops and starts them. Close or Shutdown ends them.
func NewServer(g *gate.Gate, c Config) (*Server, error) {
	if c.Loops < 1 {
		return nil, fmt.Errorf("event loops %d: want 1 or more", c.Loops)
	}
	if !c.Upstream.IsValid() || c.Upstream.Port() == 0 {
		return nil, fmt.Errorf("upstream %s: want an address with a port", c.Upstream)
	}
	if c.HeadTimeout == 0 {
		c.HeadTimeout = defaultHeadTimeout
	}
	s := &Server{gate: g, cfg: c, departure: make(chan struct{}, 1)}
	s.dialling = upstream.Config{Address: c.Upstream, TLS: c.UpstreamTLS, TLSFailed: c.UpstreamTLSFailed, Refused: c.UpstreamRefused}
	g.Pending.Start(loop.Nanotime())
	share := upstreamShare(g.Descriptors, c.Loops)
	g.Descriptors.Reserve(c.Loops * (loopDescriptors + share))
	for range c.Loops {
		l, err := loop.New()
		if err != nil {
			for _, e := range s.engines {
				e.loop.Close()
				_ = e.loop.Run() // ends at once
			}
			return nil, err
		}
		e := &engine{srv: s, gate: g, cfg: &s.cfg, loop: l, host: []byte(c.Upstream.String())}
		e.bufs.init(g, l)
		e.sessions.Init(l, keptSessions, maxSessions, nil)
		e.dialer.Init(l, g, &s.dialling, &s.pools, share)
		e.pool = Pool{eng: e, dialer: &e.dialer, bufs: &e.bufs, stats: &s.pools, host: e.host}
		e.connector = &e.pool
		if c.Part != nil {
			e.part = c.Part(l, &e.dialer, &e.pool, &s.pools)
			e.connector = e.part.Connector()
		}
		g.Descriptors.Add(loopIdle{e})
		l.Trimmed(e.trim)
		s.engines = append(s.engines, e)
	}
	for _, e := range s.engines {
		s.ran.Go(func() {
			if err := e.loop.Run(); err != nil && c.Panicked != nil {
				c.Panicked(err)
			}
		})
	}
	return s, nil
}

// Clock is the clock of Exchange: the time since the process began.
func Clock() time.Duration { return time.Duration(loop.Nanotime()) }

// statsTimeout bounds how long Stats waits for a busy loop.
const statsTimeout = 100 * time.Millisecond

// Stats sums up the pools of all loops. It asks each loop, so that the request
// path need not count for it; a loop that does not answer in time counts as
// having nothing idle.
func (s *Server) Stats() gate.UpstreamStats {
	st := gate.UpstreamStats{Dials: s.pools.Dials.Load(), Reuses: s.pools.Reuses.Load(), Replays: s.gate.Replays.Load()}
	st.Open = int(st.Dials - s.pools.Closes.Load())
	idle := make(chan int, len(s.engines))
	for _, e := range s.engines {
		e.loop.Post(func() {
			n := len(e.pool.idle)
			if e.part != nil {
				n += e.part.IdleUpstreams()
			}
			idle <- n
		})
	}
	timer := time.NewTimer(statsTimeout)
	defer timer.Stop()
	for range s.engines {
		select {
		case n := <-idle:
			st.Idle += n
		case <-timer.C:
			return st
		}
	}
	return st
}

// Listening tells the engine, from outside, that the container has begun to
// accept connections: requests that are held try at once.
func (s *Server) Listening() { s.gate.Pending.Hurry() }

// Shutdown closes the listeners and all idle connections, waits for requests
// to end and, for at most the gate's DrainTunnel, for tunnels, and ends the
// loops. When ctx is done first, what is left is cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leaving.Store(true)
	s.leave(ctx)
	grace := time.NewTimer(s.gate.DrainTunnel)
	defer grace.Stop()
	expired := false
	var err error
	d := s.gate.Drain
	for err == nil && (d.Requests() > 0 || d.Tunnels() > 0 && !expired) {
		select {
		case <-s.departure:
		case <-grace.C:
			expired = true
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		s.awaitPart(ctx)
	}
	s.Close()
	return err
}

// partTimeout bounds how long a shutdown waits for the other protocol's
// connections after the last request: for a round trip of a GOAWAY, and for
// clients that read their last answers and close.
const partTimeout = 1500 * time.Millisecond

// awaitPart waits until the other protocol's connections have closed: a cut
// could take answers along that their clients have not read.
func (s *Server) awaitPart(ctx context.Context) {
	if s.cfg.PartConnections == nil {
		return
	}
	timer := time.NewTimer(partTimeout)
	defer timer.Stop()
	for s.cfg.PartConnections() > 0 {
		select {
		case <-s.departure:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close cuts everything and waits for the loops to end.
func (s *Server) Close() {
	s.leaving.Store(true)
	for _, e := range s.engines {
		e.loop.Close()
	}
	s.ran.Wait()
	for _, e := range s.engines {
		for _, l := range e.listeners {
			l.close()
		}
		e.listeners = nil
		e.bufs.pipes.trim()
	}
}

// Departed tells Shutdown to look again: a request of another engine that
// shares the gate has ended.
func (s *Server) Departed() { s.departed() }

// departed tells Shutdown to look again.
func (s *Server) departed() {
	if s.leaving.Load() {
		select {
		case s.departure <- struct{}{}:
		default:
		}
	}
}

// silentGrace is how long a shutdown waits for the first request of connections
// that have just been made: it comes right behind them.
const silentGrace = 100 * time.Millisecond

// leave stops accepting, closes what is idle, and gives connections that have
// not sent anything a moment for their first request.
func (s *Server) leave(ctx context.Context) {
	silent := make(chan bool, len(s.engines))
	for _, e := range s.engines {
		e.loop.Post(func() {
			e.leave()
			silent <- e.silent.first != nil
		})
	}
	timer := time.NewTimer(silentGrace) // also for a loop that has ended and does not tell
	defer timer.Stop()
	wait := false
	for range s.engines {
		select {
		case some := <-silent:
			wait = wait || some
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
	if !wait {
		return
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leave stops accepting and closes what is idle. Connections that the kernel
// has accepted for the gate are served first, and those that have not sent
// anything yet stay open: their client has connected before.
func (e *engine) leave() {
	for _, l := range e.listeners {
		l.drain()
		l.close()
	}
	e.listeners = nil
	if e.part != nil {
		e.part.Leave()
	}
	for _, l := range []*connList{&e.reading, &e.conns} {
		for c := l.first; c != nil; {
			next := c.next
			if c.session == nil {
				c.finish()
			} else {
				c.session.handle.Wake()
			}
			c = next
		}
	}
}

// trim gives the memory of a large burst back: without requests the next
// collection may be minutes off.
func (e *engine) trim(n int) {
	e.bufs.pipes.trim()
	e.pool.trim()
	if n >= collectFrom {
		go debug.FreeOSMemory()
	}
}

// collectFrom is how many spares that are let go are worth a collection of
// their own.
const collectFrom = 32

func (e *engine) panicked(v any) {
	if e.srv.cfg.Panicked != nil {
		e.srv.cfg.Panicked(v)
	}
}

// dateCache is the Date field line, formatted once a second.
type dateCache struct {
	line []byte
	made int64 // on the loop's clock
}

func (e *engine) appendDate(dst []byte) []byte {
	d := &e.date
	if now := e.loop.Now(); d.line == nil || now-d.made >= int64(time.Second) {
		t := time.Now().UTC()
		d.made = now - int64(t.Nanosecond())
		d.line = t.AppendFormat(d.line[:0], "Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n")
	}
	return append(dst, d.line...)
}
