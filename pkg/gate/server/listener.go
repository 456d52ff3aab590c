package server

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Serve accepts connections from ln on all loops and returns immediately. It duplicates
// the descriptor and closes ln.
func (s *Server) Serve(ln *net.TCPListener) error { return s.ServeTLS(ln, nil) }

// ServeTLS does the same as Serve for a port whose connections begin with a TLS
// handshake. If the parameter port is nil, the connections are in plaintext.
func (s *Server) ServeTLS(ln *net.TCPListener, port *TLS) error { return s.serve(ln, port, false) }

// ServeShared does the same as ServeTLS for a socket that another process also holds and
// continues to serve. A shutdown leaves the connections in the backlog to that process.
func (s *Server) ServeShared(ln *net.TCPListener, port *TLS) error { return s.serve(ln, port, true) }

func (s *Server) serve(ln *net.TCPListener, port *TLS, shared bool) error {
	defer ln.Close()
	raw, err := ln.SyscallConn()
	if err != nil {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	for _, w := range s.workers {
		fd := -1
		cerr := raw.Control(func(p uintptr) {
			if fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				err = prepareListener(fd)
			}
		})
		if err := errors.Join(cerr, err); err != nil {
			return fmt.Errorf("serving %s: %w", ln.Addr(), err)
		}
		w.Loop.Post(func() { w.listen(fd, port, shared) })
	}
	return nil
}

// ServeDescriptors accepts plaintext connections from listening descriptors, one for each
// loop. The descriptors must be non-blocking. The server owns them from now on.
func (s *Server) ServeDescriptors(fds []int) {
	for i, w := range s.workers {
		w.Loop.Post(func() { w.listen(fds[i], nil, false) })
	}
}

// prepareListener sets options that accepted connections inherit. They are TCP_NODELAY,
// and keep-alive parameters that detect a vanished peer within a minute.
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
	worker *Worker
	sock   loop.Sock
	fd     int
	paused bool // the listener accepts nothing: its descriptor is open, but not registered
	tls    *TLS // nil: plaintext
	shared bool // another process also holds the socket and serves its backlog
}

// acceptBatch is the number of connections accepted at once, so that accepting cannot
// starve the loop.
const acceptBatch = 64

func (w *Worker) listen(fd int, port *TLS, shared bool) {
	l := &listener{worker: w, fd: fd, paused: true, tls: port, shared: shared}
	w.listeners = append(w.listeners, l)
	l.resume()
}

// Event accepts pending connections. The listener is level-triggered, so the remaining
// connections cause another event.
func (l *listener) Event(*loop.Sock) {
	if l.accept() {
		l.pause()
	}
}

// accept accepts up to acceptBatch connections. It reports whether descriptors are
// exhausted.
func (l *listener) accept() (exhausted bool) {
	w := l.worker
	for range acceptBatch {
		if !w.Gate.Descriptors.TryAcquire() {
			return true
		}
		fd, peer, err := w.Loop.Accept(l.fd)
		switch {
		case err == nil && l.tls != nil:
			w.acceptTLS(fd, peer, l.tls)
			continue
		case err == nil:
			w.http1.Adopt(fd, peer, nil, nil)
			continue
		}
		w.Gate.Descriptors.Release()
		switch err {
		case unix.ECONNABORTED, unix.EINTR:
			continue
		case unix.EMFILE, unix.ENFILE:
			return true
		}
		return false
	}
	return false
}

// pause leaves further connections in the backlog until a descriptor is available.
func (l *listener) pause() {
	if !l.worker.Loop.Acceptable(l.fd) {
		return
	}
	l.paused = true
	l.sock.Detach()
	d := l.worker.Gate.Descriptors
	d.Await(func() { l.worker.Loop.Post(l.resume) })
	d.Reclaim()
}

// resume accepts connections again after pause.
func (l *listener) resume() {
	if !l.paused || l.worker.ShuttingDown() {
		return // the listener is closed, or is about to be drained and closed
	}
	l.paused = false
	if err := l.worker.Loop.RegisterListener(&l.sock, l.fd, l); err != nil {
		l.paused = true
		l.close()
		l.worker.ReportPanic(err)
	}
}

// maxDrainBatches is the maximum number of batches that drain accepts, so that it ends
// even if clients keep connecting. These batches have 8192 connections. That is twice the
// largest default backlog of Linux, which is 4096.
const maxDrainBatches = 2 * 4096 / acceptBatch

// drain accepts the connections in the backlog, because closing the listener would reset
// them. If the socket is shared, drain does nothing: the other process accepts these
// connections.
func (l *listener) drain() {
	if l.shared {
		return
	}
	for range maxDrainBatches {
		if !l.worker.Loop.Acceptable(l.fd) || l.accept() {
			return
		}
	}
}

// close unregisters the descriptor from the epoll set before it closes the descriptor.
// Closing alone would not remove the socket from the epoll set if another process or loop
// holds a duplicate of the descriptor. Then this loop would still get wake-ups for new
// connections, and the process or loop that accepts them would not.
func (l *listener) close() {
	switch {
	case l.paused:
		l.worker.Loop.CloseDescriptor(l.fd)
	case l.sock.Open():
		l.worker.Loop.CloseDescriptor(l.sock.Detach())
	}
	l.paused = false
}
