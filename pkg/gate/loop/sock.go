package loop

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAgain says that the call would have had to wait. It is a net.Error that
// is temporary, so that a Codec does not take it for the end.
var ErrAgain error = &wouldBlock{"would block"}

type wouldBlock struct{ text string }

func (e *wouldBlock) Error() string { return e.text }
func (*wouldBlock) Timeout() bool   { return false }
func (*wouldBlock) Temporary() bool { return true }

// Handler is notified of news on a socket. A Handle is one; an idle connection
// has one of its own.
type Handler interface{ Event(s *Sock) }

// Sock is a non-blocking descriptor that is registered with one loop. The
// zero value is closed.
type Sock struct {
	rawSock
	handler        Handler
	layer          *Layer // nil: the user's bytes are those on the wire
	gen            int32  // tells this registration from a later one of the same number
	open           bool
	readable       bool
	writable       bool
	hangup         bool // the peer has sent FIN
	failed         bool // reset, or both directions are shut
	resetByWrite   bool // a write has met it: the kernel, which tells once, tells reads of an end
	levelTriggered bool // an event tells of a state, not of a change (no EPOLLET)
}

const (
	edge      = 1 << 31 // EPOLLET, which package unix has with the wrong sign
	allEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | edge
)

// Register makes s the owner of fd and delivers its events to h. If there is
// something to read already, that is the first event.
func (l *Loop) Register(s *Sock, fd int, h Handler) error {
	return l.register(s, fd, h, allEvents)
}

// RegisterListener is Register for a listening descriptor that several loops
// share: one of them is woken for a connection, not all.
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

// SetHandler makes h the receiver of the next events.
func (s *Sock) SetHandler(h Handler) { s.handler = h }

// Open reports whether s holds a descriptor.
func (s *Sock) Open() bool { return s.open }

// Readable reports whether a Read may find something: bytes, end or error.
func (s *Sock) Readable() bool { return s.readable }

// Writable reports whether a Write may find room.
func (s *Sock) Writable() bool { return s.writable }

// HungUp reports that the peer has ended its direction (FIN), perhaps with
// bytes still to be read before the end.
func (s *Sock) HungUp() bool { return s.hangup }

// Failed reports that the connection is dead in both directions.
func (s *Sock) Failed() bool { return s.failed }

// Read reads what is there: ErrAgain when nothing is, io.EOF at the end, and
// otherwise the system's error. len(b) must not be 0.
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

// Discard drops up to n bytes of what is there. Where there is no layer they
// are not copied; otherwise they go through b. It returns what Read would.
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

// noteRead notes what a system call that asked for at most `most` bytes has found.
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
		s.readable = false // emptied: whatever comes later is a new edge
	}
	return n, nil
}

// Write writes what there is room for; ErrAgain means nothing was written. The
// next Write must begin with the bytes that this one did not write.
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

// noteWriteError notes that nothing more can be written. What came before the error can
// still be read.
func (s *Sock) noteWriteError(err error) {
	s.failed, s.readable = true, true
	s.resetByWrite = s.resetByWrite || err == unix.ECONNRESET
}

// noteEnd notes that nothing more can be read, and returns why.
func (s *Sock) noteEnd() error {
	if s.resetByWrite {
		return unix.ECONNRESET
	}
	s.hangup = true
	return io.EOF
}

// Quiet looks at the kernel's side of a connection that should have nothing
// to say: true when neither bytes, end nor error are pending. One system call.
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

// QuietSincePoll is like Quiet, without a system call if the loop collected its events
// at most maxAge ago: then it reports whether they told of nothing to read.
func (s *Sock) QuietSincePoll(maxAge time.Duration) bool {
	if s.layer != nil || s.readable || s.loop.Nanotime()-s.loop.now > int64(maxAge) {
		return s.Quiet()
	}
	return !s.failed && !s.hangup
}

// Ended looks whether the peer's end, or an error, is what would be read next,
// even if the event that tells has not been delivered yet. One system call.
func (s *Sock) Ended() bool {
	if s.layer != nil {
		return s.layer.ended()
	}
	n, e := s.peek(make([]byte, 1))
	return n == 0 && e != unix.EAGAIN
}

// Peek copies the first bytes that are there to b, which stay, and returns how
// many. It is for sockets without a layer.
func (s *Sock) Peek(b []byte) int {
	n, _ := s.peek(b)
	return n
}

// CloseWrite sends FIN, behind the end of the layer if there is one, and keeps
// reading possible.
func (s *Sock) CloseWrite() {
	switch {
	case !s.open:
	case s.layer != nil:
		s.layer.closeWrite()
	default:
		s.shutdown()
	}
}

// Finish tells the peer, where a layer needs to, that what it has got is all,
// and reports whether that has gone out. A Close without it reads as a cut.
// Without a layer it does nothing: Close tells.
func (s *Sock) Finish() bool {
	return !s.open || s.layer == nil || s.layer.finish()
}

// Detach takes s from its loop without closing the descriptor, which it
// returns.
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

// Close gives the descriptor back. Closing twice is harmless.
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

// Reset closes with RST, so that the peer cannot take the end of the stream
// for the end of a message.
func (s *Sock) Reset() {
	if !s.open {
		return
	}
	s.resetOnClose()
	s.Close()
}
