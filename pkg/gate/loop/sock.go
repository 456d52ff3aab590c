package loop

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAgain means that a call would block. It is a temporary net.Error.
var ErrAgain error = &wouldBlock{"would block"}

type wouldBlock struct{ text string }

func (e *wouldBlock) Error() string { return e.text }
func (*wouldBlock) Timeout() bool   { return false }
func (*wouldBlock) Temporary() bool { return true }

// Handler is notified of the events of a socket.
type Handler interface{ Event(s *Sock) }

// Sock is a non-blocking descriptor that is registered with one loop. The zero value is a
// closed Sock.
type Sock struct {
	rawSock
	handler  Handler
	layer    *Layer // encodes and decodes the payload, such as TLS; nil = no encoding
	gen      int32  // distinguishes registrations of the same descriptor number
	open     bool
	readable bool
	writable bool
	hangup   bool // the peer has sent FIN
	failed   bool // reset or another error, or both ends have sent FIN
	// resetByWrite is true if a write has failed with ECONNRESET. The kernel then reports
	// EOF to a later read. Read returns ECONNRESET instead.
	resetByWrite   bool
	levelTriggered bool // registered without EPOLLET
}

const (
	edge      = 1 << 31 // EPOLLET, whose constant in package unix is negative
	allEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | edge
)

// Register makes s the owner of fd, and delivers its events to h. If fd is already
// readable, an event follows.
func (l *Loop) Register(s *Sock, fd int, h Handler) error {
	return l.register(s, fd, h, allEvents)
}

// RegisterListener is Register for a listening descriptor that several loops share. A new
// connection wakes only one of them.
func (l *Loop) RegisterListener(s *Sock, fd int, h Handler) error {
	return l.register(s, fd, h, unix.EPOLLIN|unix.EPOLLEXCLUSIVE)
}

func (l *Loop) register(s *Sock, fd int, h Handler, events uint32) error {
	for len(l.socks) <= fd {
		l.socks = append(l.socks, nil)
	}
	l.gen++
	*s = Sock{rawSock: rawSock{l, fd}, handler: h, gen: l.gen, open: true, writable: true, levelTriggered: events&edge == 0}
	ev := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: s.gen}
	if err := l.watchSock(fd, &ev); err != nil {
		*s = Sock{}
		return fmt.Errorf("watching a descriptor: %w", err)
	}
	l.socks[fd] = s
	return nil
}

func (l *Loop) watchSock(fd int, ev *unix.EpollEvent) error {
	if l.kernel != nil {
		return l.kernel.Watch(l, fd, *ev)
	}
	return unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, ev)
}

func (s *Sock) note(events uint32) {
	if events&unix.EPOLLRDHUP != 0 {
		s.hangup = true
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.failed = true
	}
	readable := events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	writable := events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0
	if s.layer != nil {
		s.layer.note(readable, writable)
		return
	}
	s.readable, s.writable = s.readable || readable, s.writable || writable
}

// SetHandler makes h the receiver of further events.
func (s *Sock) SetHandler(h Handler) { s.handler = h }

// Open reports whether s holds a descriptor.
func (s *Sock) Open() bool { return s.open }

// Readable reports whether Read may return bytes, EOF or an error other than ErrAgain.
func (s *Sock) Readable() bool { return s.readable }

// Writable reports whether a Write may accept bytes.
func (s *Sock) Writable() bool { return s.writable }

// HungUp reports whether the peer has sent FIN. Earlier bytes may still be unread.
func (s *Sock) HungUp() bool { return s.hangup }

// Failed reports whether the connection has failed in both directions.
func (s *Sock) Failed() bool { return s.failed }

// Read reads available bytes. It returns ErrAgain if there are none, and io.EOF at the
// end of the stream. len(b) must not be 0.
func (s *Sock) Read(b []byte) (int, error) {
	if s.layer != nil {
		return s.layer.read(b)
	}
	if !s.readable {
		return 0, ErrAgain
	}
	n, e := s.sysRead(b)
	return s.noteRead(n, e, len(b))
}

// Discard reads and discards up to n available bytes. If s has a layer or is simulated,
// Discard reads the bytes into b, and ignores n. Like Read, it returns the number of
// bytes or an error.
func (s *Sock) Discard(n int, b []byte) (int, error) {
	if s.layer != nil || s.loop.kernel != nil {
		return s.Read(b)
	}
	if !s.readable {
		return 0, ErrAgain
	}
	got, e := s.sysDiscard(n)
	return s.noteRead(got, e, n)
}

// noteRead updates the state of s after a system call that has returned n bytes or the
// error e. The parameter most is the number of bytes that was requested. The results of
// noteRead are the results of Read.
func (s *Sock) noteRead(n int, e syscall.Errno, most int) (int, error) {
	switch {
	case e == unix.EAGAIN:
		s.readable = false
		return 0, ErrAgain
	case e != 0:
		s.failed = true
		return 0, e
	case n == 0:
		return 0, s.noteEnd()
	}
	if n < most && !s.hangup && !s.failed {
		s.readable = false // the receive buffer is empty, so more bytes cause a new edge
	}
	return n, nil
}

// Write writes the first bytes of b and returns their number. ErrAgain means that none
// were written. The next Write must begin with the bytes not written.
func (s *Sock) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if s.layer != nil {
		return s.layer.write(b)
	}
	if !s.writable {
		return 0, ErrAgain
	}
	n, e := s.sysSend(b)
	switch {
	case e == unix.EAGAIN:
		s.writable = false
		return 0, ErrAgain
	case e != 0:
		s.noteWriteError(e)
		return 0, e
	}
	if n < len(b) {
		s.writable = false
	}
	return n, nil
}

// noteWriteError records that nothing more can be written. Bytes received before the
// error can still be read.
func (s *Sock) noteWriteError(err error) {
	s.failed, s.readable = true, true
	s.resetByWrite = s.resetByWrite || err == unix.ECONNRESET
}

// noteEnd records the end of the stream. It returns the error for the reader: io.EOF, or
// ECONNRESET if an earlier write has failed with it.
func (s *Sock) noteEnd() error {
	if s.resetByWrite {
		return unix.ECONNRESET
	}
	s.hangup = true
	return io.EOF
}

// Quiet reports whether an idle connection has no pending bytes, EOF or error. It makes
// one system call.
func (s *Sock) Quiet() bool {
	if s.layer != nil {
		return s.layer.quiet()
	}
	if s.failed || s.hangup {
		return false
	}
	if _, e := s.peek(make([]byte, 1)); e == unix.EAGAIN {
		s.readable = false
		return true
	}
	return false
}

// QuietAtPoll reports whether an idle connection had no pending bytes, EOF or error when
// the loop polled last. It makes no system call. It also returns false if this is
// unknown: the poll was longer ago than maxAge, the poll did not return all pending
// events, or s has a layer.
func (s *Sock) QuietAtPoll(maxAge time.Duration) bool {
	l := s.loop
	return s.layer == nil && !s.readable && !s.hangup && !s.failed && l.polledAll && l.Nanotime()-l.now <= int64(maxAge)
}

// AtEOF reports whether the next read would return EOF or an error. It asks the kernel by
// one system call, so its result is right even before the loop has delivered the event.
func (s *Sock) AtEOF() bool {
	if s.layer != nil {
		return s.layer.atEOF()
	}
	n, e := s.peek(make([]byte, 1))
	return n == 0 && e != unix.EAGAIN
}

// Peek copies received bytes to b without consuming them, and returns their number. The
// socket must not have a layer.
func (s *Sock) Peek(b []byte) int {
	n, _ := s.peek(b)
	return n
}

// CloseWrite sends the layer's end of data, if any, and FIN. Reading remains possible.
func (s *Sock) CloseWrite() {
	switch {
	case !s.open:
	case s.layer != nil:
		s.layer.closeWrite()
	default:
		s.shutdown()
	}
}

// Finish sends the layer's end of data (TLS: close_notify). If the connection were closed
// without it, the peer would consider the data truncated. Finish returns false if the
// kernel has not accepted all encoded bytes yet. Without a layer, Finish does nothing and
// returns true.
func (s *Sock) Finish() bool {
	return !s.open || s.layer == nil || s.layer.finish()
}

// Detach unregisters s from its loop and returns the descriptor, which stays open.
func (s *Sock) Detach() int {
	s.open = false
	s.loop.socks[s.fd] = nil
	if k := s.loop.kernel; k != nil {
		k.Unwatch(s.loop, s.fd)
		return s.fd
	}
	_ = unix.EpollCtl(s.loop.epfd, unix.EPOLL_CTL_DEL, s.fd, nil)
	return s.fd
}

// Close closes the descriptor. Closing twice has no effect.
func (s *Sock) Close() {
	if !s.open {
		return
	}
	if s.layer != nil && s.layer.handshake != nil {
		s.layer.handshake.cancel()
	}
	s.open = false
	s.loop.socks[s.fd] = nil
	s.loop.CloseDescriptor(s.fd)
	if s.layer != nil {
		s.loop.AddGarbage(layerBytes)
	}
	s.readable, s.writable, s.layer = false, false, nil
}

// Reset closes the connection with RST, so that the peer cannot mistake the end of the
// stream for the end of a message.
func (s *Sock) Reset() {
	if !s.open {
		return
	}
	s.resetOnClose()
	s.Close()
}
