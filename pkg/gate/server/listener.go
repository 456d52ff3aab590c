package server

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Serve begins to accept connections from ln on all loops and returns at
// once. The server takes a descriptor of its own; ln is closed.
func (s *Server) Serve(ln *net.TCPListener) error { return s.ServeTLS(ln, nil) }

// ServeTLS is Serve for a port whose connections begin with a TLS handshake; nil:
// they do not. Until the client's hello is there, a connection costs a small
// struct and its descriptor.
func (s *Server) ServeTLS(ln *net.TCPListener, port *TLS) error {
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
		w.Loop.Post(func() { w.listen(fd, port) })
	}
	return nil
}

// ServeDescriptors is Serve for listening descriptors that are non-blocking, one
// for each loop, which belong to the server from then on.
func (s *Server) ServeDescriptors(fds []int) {
	for i, w := range s.workers {
		w.Loop.Post(func() { w.listen(fds[i], nil) })
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
	worker *Worker
	sock   loop.Sock
	fd     int
	paused bool // the sock is closed, and the descriptor is not
	tls    *TLS // nil: connections begin with HTTP/1
}

// acceptBatch bounds how many connections are accepted before others have
// their turn.
const acceptBatch = 64

func (w *Worker) listen(fd int, port *TLS) {
	l := &listener{worker: w, fd: fd, paused: true, tls: port}
	w.listeners = append(w.listeners, l)
	l.resume()
}

// Event accepts what has arrived. The listener is level-triggered: what is
// left over comes back.
func (l *listener) Event(*loop.Sock) {
	if l.accept() {
		l.pause()
	}
}

// accept takes connections as long as there are some, but for others to have
// their turn. It reports whether there is no descriptor for the next one.
func (l *listener) accept() (short bool) {
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

// pause leaves connections in the backlog until there is a descriptor, if there
// are any: a client that is turned away would take longer to come back.
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

// resume accepts again.
func (l *listener) resume() {
	if !l.paused || l.worker.ShuttingDown() {
		return // it is closed, or is going to be with what stands in its backlog
	}
	l.paused = false
	if err := l.worker.Loop.RegisterListener(&l.sock, l.fd, l); err != nil {
		l.paused = true
		l.close()
		l.worker.ReportPanic(err)
	}
}

// maxDrainBatches bounds how often a listener that is to be closed accepts: the
// largest backlog that the system has by default, twice.
const maxDrainBatches = 2 * 4096 / acceptBatch

// drain accepts what stands in the backlog: closing the listener would reset it.
func (l *listener) drain() {
	for range maxDrainBatches {
		if !l.worker.Loop.Acceptable(l.fd) || l.accept() {
			return
		}
	}
}

func (l *listener) close() {
	if l.paused {
		l.worker.Loop.CloseDescriptor(l.fd)
	}
	l.paused = false
	l.sock.Close()
}
