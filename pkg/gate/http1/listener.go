package http1

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

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

// AdoptPart is Adopt for the other protocol of the loops.
func (s *Server) AdoptPart(fd int, peer netip.AddrPort, layer *loop.Layer) {
	e := s.engines[int(s.adopted.Inc())%len(s.engines)]
	e.loop.Post(func() { e.part.Adopt(fd, peer, layer, nil) })
}

func (e *engine) adopt(fd int, peer netip.AddrPort, layer *loop.Layer) {
	c := &conn{eng: e, peer: peer}
	if e.srv.leaving.Load() || e.loop.Register(&c.sock, fd, c) != nil {
		_ = unix.Close(fd)
		return
	}
	e.link(c)
	if layer != nil {
		c.sock.Wrap(layer)
		e.openSession(c) // a request may stand in the layer already
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
