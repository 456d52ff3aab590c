package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Config is what the engine needs beside the gate.
type Config struct {
	// Upstream is the user container's address.
	Upstream netip.AddrPort
	// Loops is the number of event loops, 1 or more.
	Loops int
	// HTTP2 takes over a client connection that begins with the preface of
	// HTTP/2 (RFC 9113 section 3.4): a non-blocking descriptor, which it owns
	// from then on, and the bytes that have been read, which it copies. It is
	// called on a loop and must not block. nil: such connections are refused.
	HTTP2 func(fd int, peer netip.AddrPort, read []byte)
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

// Server is the HTTP/1 engine: it serves any number of listeners on its event
// loops and forwards to one container.
type Server struct {
	gate    *gate.Gate
	cfg     Config
	host    []byte // Host where a request has none
	engines []*engine
	ran     sync.WaitGroup

	adopted   atomic.Uint32
	listened  atomic.Bool // the container has accepted a connection at least once
	held      atomic.Int64
	departure chan struct{} // something has ended while shutting down
	leaving   atomic.Bool

	dials, closes, reuses, replays atomic.Int64
}

// PoolStats is the state of the upstream pools, and what they did since the
// start.
type PoolStats struct {
	Open, Idle             int
	Dials, Reuses, Replays int64
}

// engine is the part of a Server that belongs to one loop.
type engine struct {
	srv       *Server
	loop      *loop.Loop
	up        upstreamPool
	bulks     bulkPool
	answers   answerBuffers
	listeners []*listener
	conns     *conn // list of all client connections
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
		c.HeadTimeout = time.Minute
	}
	s := &Server{gate: g, cfg: c, host: []byte(c.Upstream.String()), departure: make(chan struct{}, 1)}
	for range c.Loops {
		l, err := loop.New()
		if err != nil {
			for _, e := range s.engines {
				e.loop.Close()
				_ = e.loop.Run() // ends at once
			}
			return nil, err
		}
		e := &engine{srv: s, loop: l}
		e.up.init(e)
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

// Serve begins to accept connections from ln on all loops and returns at
// once. The server takes a descriptor of its own; ln is closed.
func (s *Server) Serve(ln *net.TCPListener) error {
	defer ln.Close()
	raw, err := ln.SyscallConn()
	if err != nil {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	for _, e := range s.engines {
		fd := -1
		cerr := raw.Control(func(p uintptr) {
			if fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				err = prepareListener(fd)
			}
		})
		if err := errors.Join(cerr, err); err != nil {
			return fmt.Errorf("serving %s: %w", ln.Addr(), err)
		}
		e.loop.Post(func() { e.listen(fd) })
	}
	return nil
}

// Adopt serves a connection that somebody else has accepted: fd is
// non-blocking and belongs to the server from then on. layer, nil for none,
// lies between its bytes and the engine; nothing else may use it any more.
func (s *Server) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer) {
	e := s.engines[int(s.adopted.Inc())%len(s.engines)]
	e.loop.Post(func() { e.adopt(fd, peer, layer) })
}

func (e *engine) adopt(fd int, peer netip.AddrPort, layer *loop.Layer) {
	c := &conn{eng: e, peer: peer, idle: true}
	if e.srv.leaving.Load() || e.loop.Register(&c.sock, fd, c) != nil {
		_ = unix.Close(fd)
		return
	}
	e.link(c)
	if layer != nil {
		c.sock.Wrap(layer)
		e.loop.Start(c) // a request may stand in the layer already
	}
}

// prepareListener sets what accepted connections inherit: no delay, and a
// keep-alive that finds a vanished peer within a minute.
func prepareListener(fd int) error {
	return errors.Join(
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3),
	)
}

// Clock is the clock of Exchange: the time since the process began.
func Clock() time.Duration { return time.Duration(loop.Nanotime()) }

// statsPatience bounds how long Stats waits for a busy loop.
const statsPatience = 100 * time.Millisecond

// Stats sums up the pools of all loops. It asks each loop, so that the request
// path need not count for it; a loop that does not answer in time counts as
// having nothing idle.
func (s *Server) Stats() PoolStats {
	st := PoolStats{Dials: s.dials.Load(), Reuses: s.reuses.Load(), Replays: s.replays.Load()}
	st.Open = int(st.Dials - s.closes.Load())
	idle := make(chan int, len(s.engines))
	for _, e := range s.engines {
		e.loop.Post(func() { idle <- len(e.up.idle) })
	}
	timer := time.NewTimer(statsPatience)
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
func (s *Server) Listening() {
	if s.held.Load() == 0 {
		return
	}
	for _, e := range s.engines {
		e.loop.Post(func() {
			if len(e.up.held) > 0 {
				e.up.tryAt = 0
				e.up.held[0].task.Wake()
			}
		})
	}
}

// Shutdown closes the listeners and all idle connections, waits for requests
// to end and, for at most the gate's DrainTunnel, for tunnels, and ends the
// loops. When ctx is done first, what is left is cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leaving.Store(true)
	for _, e := range s.engines {
		e.loop.Post(e.leave)
	}
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
	s.Close()
	return err
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
			_ = unix.Close(l.reserve)
		}
		e.listeners = nil
		e.bulks.trimPipes()
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

// leave stops accepting and closes what is idle.
func (e *engine) leave() {
	for _, l := range e.listeners {
		l.close()
	}
	e.listeners = nil
	for c := e.conns; c != nil; {
		next := c.next
		if c.idle {
			c.finish()
		} else if c.task != nil {
			c.task.Wake()
		}
		c = next
	}
}

// listener accepts connections for one loop.
type listener struct {
	eng     *engine
	sock    loop.Sock
	reserve int // a descriptor kept for the day when there are no more
}

// acceptBatch bounds how many connections are accepted before others have
// their turn.
const acceptBatch = 64

func (e *engine) listen(fd int) {
	if e.srv.leaving.Load() {
		_ = unix.Close(fd)
		return
	}
	l := &listener{eng: e, reserve: openReserve()}
	if err := e.loop.RegisterListener(&l.sock, fd, l); err != nil {
		_ = unix.Close(fd)
		e.panicked(err)
		return
	}
	e.listeners = append(e.listeners, l)
}

// Event accepts what has arrived. The listener is level-triggered: what is
// left over comes back.
func (l *listener) Event(*loop.Sock) {
	for range acceptBatch {
		fd, sa, err := unix.Accept4(l.sock.FD(), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EMFILE, unix.ENFILE:
			if !l.shed() {
				l.pause()
				return
			}
			continue
		case unix.ECONNABORTED, unix.EINTR:
			continue
		default:
			return
		}
		c := &conn{eng: l.eng, peer: addrOf(sa)}
		loop.EaseLoopback(fd, c.peer.Addr())
		if err := l.eng.loop.Register(&c.sock, fd, c); err != nil {
			_ = unix.Close(fd)
			continue
		}
		c.idle = true
		l.eng.link(c)
	}
}

// shed closes a connection that there is no descriptor for: left in the
// backlog it would keep the loop busy and its client in the dark.
func (l *listener) shed() bool {
	_ = unix.Close(l.reserve)
	if fd, _, err := unix.Accept4(l.sock.FD(), unix.SOCK_CLOEXEC); err == nil {
		_ = unix.Close(fd)
	}
	l.reserve = openReserve()
	return l.reserve >= 0
}

// acceptPause is how long a loop leaves its backlog alone when it cannot even
// shed.
const acceptPause = 50 * time.Millisecond

func (l *listener) pause() {
	fd := l.sock.Detach()
	e := l.eng
	time.AfterFunc(acceptPause, func() {
		e.loop.Post(func() {
			e.listeners = slices.DeleteFunc(e.listeners, func(x *listener) bool { return x == l })
			e.listen(fd)
		})
	})
}

func openReserve() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func (l *listener) close() {
	l.sock.Close()
	_ = unix.Close(l.reserve)
}

func addrOf(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

func (e *engine) link(c *conn) {
	if c.next = e.conns; c.next != nil {
		c.next.prev = c
	}
	e.conns = c
}

func (e *engine) unlink(c *conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else if e.conns == c {
		e.conns = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
}

// Buffers of a loop that stay when a burst is over.
const (
	keptBulks     = 2
	keptAnswers   = 8
	keptUpstreams = 64
)

// trim lets go of buffers that a burst has left behind, and gives the memory
// of a large one back: without requests the next collection may be minutes off.
func (e *engine) trim(tasks int) {
	e.bulks.free = slices.Clone(e.bulks.free[:min(len(e.bulks.free), keptBulks)])
	e.answers.free = slices.Clone(e.answers.free[:min(len(e.answers.free), keptAnswers)])
	e.bulks.trimPipes()
	e.up.trim()
	if tasks >= collectFrom {
		go debug.FreeOSMemory()
	}
}

// collectFrom is how many coroutines are worth a collection of their own.
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
