package loop

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"
)

type ignoreEvents struct{}

func (ignoreEvents) Event(*Sock) {}

type handlerFunc func(*Sock)

func (f handlerFunc) Event(s *Sock) { f(s) }

func socketPair(t *testing.T) [2]int {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// tcpPair returns the two ends of a loopback connection. The first end is a descriptor
// that the test can register with a loop.
func tcpPair(t *testing.T) (int, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	return fd, far.(*net.TCPConn)
}

// subject is a registered socket and its peer.
type subject struct {
	t    *testing.T
	loop *Loop
	sock Sock
	far  *net.TCPConn
	news chan struct{}
}

func newSubject(t *testing.T) *subject {
	t.Helper()
	s := &subject{t: t, loop: startLoop(t), news: make(chan struct{}, 1)}
	fd, far := tcpPair(t)
	s.far = far
	s.do(func() {
		if err := s.loop.Register(&s.sock, fd, handlerFunc(func(*Sock) {
			select {
			case s.news <- struct{}{}:
			default:
			}
		})); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *subject) do(f func()) { s.t.Helper(); on(s.t, s.loop, f) }

func (s *subject) until(what string, condition func() bool) {
	s.t.Helper()
	for ok := false; ; {
		if s.do(func() { ok = condition() }); ok {
			return
		}
		receive(s.t, s.news)
	}
}

func (s *subject) read(size int) (string, error) {
	b := make([]byte, size)
	var n int
	var err error
	s.do(func() { n, err = s.sock.Read(b) })
	return string(b[:n]), err
}

func (s *subject) wantRead(size int, want string, wantErr error) {
	s.t.Helper()
	if got, err := s.read(size); got != want || !errors.Is(err, wantErr) {
		s.t.Fatalf("read %q, %v; want %q, %v", got, err, want, wantErr)
	}
}

func (s *subject) send(b string) {
	s.t.Helper()
	if _, err := s.far.Write([]byte(b)); err != nil {
		s.t.Fatal(err)
	}
}

func TestReadReturnsErrAgainUntilBytesArrive(t *testing.T) {
	s := newSubject(t)
	s.wantRead(8, "", ErrAgain)
	for range 3 {
		s.send("hello")
		s.until("readable", s.sock.Readable)
		s.wantRead(8, "hello", nil)
		s.do(func() {
			if s.sock.Readable() {
				t.Error("readable after a read that emptied the socket")
			}
		})
		s.wantRead(8, "", ErrAgain)
	}
}

func TestReadIntoASmallBufferLeavesTheRest(t *testing.T) {
	s := newSubject(t)
	s.send("abcdef")
	s.until("readable", s.sock.Readable)
	s.wantRead(3, "abc", nil)
	s.wantRead(3, "def", nil) // the buffer is full, so more bytes may be available
	s.wantRead(3, "", ErrAgain)
}

func TestBytesBeforeEOFAreReadFirst(t *testing.T) {
	s := newSubject(t)
	s.send("last words")
	if err := s.far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.until("hang-up", s.sock.HungUp)
	s.do(func() {
		if s.sock.Failed() {
			t.Error("a FIN counts as a failure")
		}
		if s.sock.Quiet() {
			t.Error("quiet with bytes and an end pending")
		}
	})
	s.wantRead(64, "last words", nil)
	s.wantRead(64, "", io.EOF)
	s.wantRead(64, "", io.EOF)
	s.do(func() {
		if n, err := s.sock.Write([]byte("still")); n != 5 || err != nil {
			t.Errorf("write after the peer's FIN: %d, %v", n, err)
		}
	})
	b := make([]byte, 5)
	if _, err := io.ReadFull(s.far, b); err != nil || string(b) != "still" {
		t.Fatalf("%q, %v", b, err)
	}
}

func TestAFINAfterAReadThatEmptiedTheSocketIsDetected(t *testing.T) {
	s := newSubject(t)
	s.send("x")
	s.until("readable", s.sock.Readable)
	s.wantRead(64, "x", nil)
	_ = s.far.CloseWrite()
	s.until("hang-up", s.sock.HungUp)
	s.wantRead(64, "", io.EOF)
}

func TestResetFailsTheSocket(t *testing.T) {
	s := newSubject(t)
	_ = s.far.SetLinger(0)
	_ = s.far.Close()
	s.until("failure", s.sock.Failed)
	s.do(func() {
		if s.sock.Quiet() {
			t.Error("quiet after a reset")
		}
	})
	if _, err := s.read(8); err == nil || errors.Is(err, ErrAgain) || errors.Is(err, io.EOF) {
		t.Fatalf("read after a reset: %v", err)
	}
}

func TestASocketReportsFailedAndReadableAfterAFailedWrite(t *testing.T) {
	s := newSubject(t)
	s.do(func() {
		_ = s.far.SetLinger(0)
		_ = s.far.Close()
		waitForBytes(t, s.sock.FD())
		// This function blocks the loop, so the loop delivers no event of the reset. The
		// socket notices the reset when a write fails. The first write may fail with
		// ECONNRESET, the others with EPIPE.
		for range 3 {
			n, err := s.sock.Write([]byte("x"))
			if err == nil || errors.Is(err, ErrAgain) || n != 0 {
				t.Errorf("write: %d, %v", n, err)
			}
			if !s.sock.Failed() || !s.sock.Readable() {
				t.Error("neither failed nor readable")
			}
		}
	})
}

func TestWriteReturnsErrAgainWhenThePeerDoesNotRead(t *testing.T) {
	s := newSubject(t)
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = byte(i)
	}
	written := 0
	fill := func() {
		for {
			n, err := s.sock.Write(chunk[written%len(chunk):])
			written += n
			if err == ErrAgain {
				if n != 0 {
					t.Errorf("%d bytes written and ErrAgain", n)
				}
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
	s.do(func() {
		fill() // before the loop can deliver an event of an acknowledgement
		if s.sock.Writable() || written == 0 {
			t.Errorf("writable %v after %d bytes", s.sock.Writable(), written)
		}
		if n, err := s.sock.Write(nil); n != 0 || err != nil {
			t.Errorf("empty write: %d, %v", n, err)
		}
	})
	// When the peer reads, the socket becomes writable.
	b := make([]byte, 32<<10)
	got := 0
	take := func(total int) {
		for got < total {
			n, err := s.far.Read(b[:min(len(b), total-got)])
			for i := range n {
				if b[i] != byte((got + i)) {
					t.Fatalf("byte %d is %d", got+i, b[i])
				}
			}
			if got += n; err != nil {
				t.Fatal(err)
			}
		}
	}
	take(written)
	s.until("writable", s.sock.Writable)
	s.do(fill)
	take(written)
}

func TestQuietDetectsBytesBeforeTheirEvent(t *testing.T) {
	s := newSubject(t)
	quiet := func() (q bool) { q = s.sock.Quiet(); return q }
	s.do(func() {
		if !quiet() {
			t.Error("not quiet at the start")
		}
		// This function blocks the loop, so the loop does not deliver the event of this
		// byte. Quiet must notice the byte without the event.
		if _, err := s.far.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		waitForBytes(t, s.sock.FD())
		if s.sock.Readable() || quiet() {
			t.Error("quiet with a byte pending")
		}
	})
	s.until("readable", s.sock.Readable)
	s.wantRead(8, "x", nil)
	s.do(func() {
		if !quiet() {
			t.Error("not quiet after the byte was read")
		}
		_ = s.far.CloseWrite()
		waitForBytes(t, s.sock.FD())
		if s.sock.HungUp() || quiet() {
			t.Error("quiet with an end pending")
		}
	})
}

// Both sockets have an event in the same batch.
func TestTheFirstHandlerOfABatchSeesTheEventsOfAllSockets(t *testing.T) {
	l := startLoop(t)
	pairs := [2][2]int{socketPair(t), socketPair(t)}
	var socks [2]Sock
	var other, quiet bool
	done := make(chan struct{})
	ignore := handlerFunc(func(*Sock) {})
	on(t, l, func() {
		for i := range socks {
			_, _ = unix.Write(pairs[i][1], []byte("x"))
			err := l.Register(&socks[i], pairs[i][0], handlerFunc(func(s *Sock) {
				s.SetHandler(ignore)
				socks[1-i].SetHandler(ignore)
				other, quiet = socks[1-i].Readable(), socks[1-i].QuietAtPoll(time.Hour)
				close(done)
			}))
			if err != nil {
				t.Error(err)
			}
		}
	})
	receive(t, done)
	on(t, l, func() { socks[0].Close(); socks[1].Close() })
	if !other || quiet {
		t.Errorf("the first handler saw readable=%v, quiet=%v of the other socket, whose event was in its batch", other, quiet)
	}
}

func TestQuietAtPollIsFalseWhenTheLastPollReportedBytesOrEOF(t *testing.T) {
	s := newSubject(t)
	s.do(func() {
		if !s.sock.QuietAtPoll(time.Hour) {
			t.Error("not quiet at the start")
		}
		if s.sock.QuietAtPoll(-1) {
			t.Error("quiet by a poll that is too old")
		}
		if _, err := s.far.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	})
	s.until("readable", s.sock.Readable)
	s.do(func() {
		if s.sock.QuietAtPoll(time.Hour) {
			t.Error("quiet with a byte pending")
		}
	})
	s.wantRead(8, "x", nil)
	s.do(func() {
		if !s.sock.QuietAtPoll(time.Hour) {
			t.Error("not quiet after the byte was read")
		}
		_ = s.far.CloseWrite()
	})
	s.until("hung up", s.sock.HungUp)
	s.do(func() {
		if s.sock.QuietAtPoll(time.Hour) {
			t.Error("quiet with EOF pending")
		}
	})
}

func TestBytesReceivedBeforeRegistrationCauseTheFirstEvent(t *testing.T) {
	l := startLoop(t)
	fd, far := tcpPair(t)
	if _, err := far.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	_ = far.CloseWrite()
	var s Sock
	got := make(chan string, 1)
	on(t, l, func() {
		if err := l.Register(&s, fd, handlerFunc(func(s *Sock) {
			if s.Readable() && s.FD() == fd {
				b := make([]byte, 8)
				n, _ := s.Read(b)
				s.Close()
				got <- string(b[:n])
			}
		})); err != nil {
			t.Error(err)
		}
	})
	if b := receive(t, got); b != "early" {
		t.Fatalf("read %q", b)
	}
}

func TestSetHandlerRedirectsEvents(t *testing.T) {
	s := newSubject(t)
	moved := make(chan struct{}, 1)
	s.do(func() {
		s.sock.SetHandler(handlerFunc(func(s *Sock) {
			if s.Readable() {
				moved <- struct{}{}
			}
		}))
	})
	s.send("x")
	receive(t, moved)
}

func TestCloseSendsFINAndResetSendsRST(t *testing.T) {
	for _, reset := range []bool{false, true} {
		s := newSubject(t)
		s.do(func() {
			end := s.sock.Close
			if reset {
				end = s.sock.Reset
			}
			end()
			end()
			s.sock.CloseWrite()
			if s.sock.Open() || s.sock.Readable() || s.sock.Writable() {
				t.Error("a closed socket is open, readable or writable")
			}
			if _, err := s.sock.Read(make([]byte, 1)); err != ErrAgain {
				t.Errorf("read of a closed socket: %v", err)
			}
			if _, err := s.sock.Write([]byte("x")); err != ErrAgain {
				t.Errorf("write to a closed socket: %v", err)
			}
		})
		_, err := s.far.Read(make([]byte, 1))
		if reset != errors.Is(err, unix.ECONNRESET) || !reset && err != io.EOF {
			t.Fatalf("reset %v: peer reads %v", reset, err)
		}
	}
}

func TestCloseWriteClosesOneDirection(t *testing.T) {
	s := newSubject(t)
	s.do(s.sock.CloseWrite)
	if _, err := s.far.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("peer reads %v", err)
	}
	s.send("answer")
	s.until("readable", s.sock.Readable)
	s.wantRead(16, "answer", nil)
}

// Two sockets become ready in one batch. The first handler closes the second socket and
// registers a silent socket with the same descriptor number. The event of the closed
// socket must not be delivered.
func TestPendingEventsOfAClosedSocketAreNotDelivered(t *testing.T) {
	l := startLoop(t)
	reused := 0
	for round := 0; reused < 100; round++ {
		if round == 1000 {
			t.Fatalf("the descriptor number was reused in %d of %d rounds only", reused, round)
		}
		pairs := [3][2]int{socketPair(t), socketPair(t), socketPair(t)}
		var first, second, third Sock
		var same bool
		var stale atomic.Bool
		done := make(chan struct{})
		on(t, l, func() {
			closed := false
			react := func(other *Sock) handlerFunc {
				return func(s *Sock) {
					if closed || !s.Readable() {
						stale.Store(stale.Load() || closed && !s.Open())
						return
					}
					closed = true
					fd := other.FD()
					other.Close()
					// Another thread may have opened a descriptor, and the kernel may
					// have given it the number that is now free. Then this round of the
					// test cannot reuse the number, and the test tries another round.
					if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
						third = Sock{}
					} else if got, err := unix.FcntlInt(uintptr(pairs[2][0]), unix.F_DUPFD_CLOEXEC, fd); err == nil {
						same = got == fd
						if err := l.Register(&third, got, handlerFunc(func(s *Sock) {
							if s.Readable() || s.HungUp() || s.Failed() {
								stale.Store(true)
							}
						})); err != nil {
							t.Error(err)
						}
					}
					l.Post(func() { l.Post(func() { close(done) }) }) // after the next batch
				}
			}
			_, _ = unix.Write(pairs[0][1], []byte("x"))
			_, _ = unix.Write(pairs[1][1], []byte("x"))
			_ = l.Register(&first, pairs[0][0], react(&second))
			_ = l.Register(&second, pairs[1][0], react(&first))
		})
		receive(t, done)
		on(t, l, func() { first.Close(); second.Close(); third.Close() })
		for _, fd := range []int{pairs[0][1], pairs[1][1], pairs[2][0], pairs[2][1]} {
			_ = unix.Close(fd)
		}
		if stale.Load() {
			t.Fatal("a socket got the event of an earlier one with the same descriptor number")
		}
		if same {
			reused++
		}
	}
}

func TestASharedListenerGivesEachConnectionToOneLoop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const clients = 50
	accepted := make(chan struct{}, 2*clients)
	for range 3 {
		l := startLoop(t)
		var fd int
		if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		s := new(Sock)
		on(t, l, func() {
			if err := l.RegisterListener(s, fd, handlerFunc(func(s *Sock) {
				// Accept one connection per event: the level-triggered listener reports
				// the rest again.
				if c, _, err := unix.Accept4(s.FD(), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
					_ = unix.Close(c)
					accepted <- struct{}{}
				}
			})); err != nil {
				t.Error(err)
			}
		})
	}
	for range clients {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range clients {
		receive(t, accepted)
	}
	if len(accepted) != 0 {
		t.Fatal("a connection was accepted twice")
	}
}

func TestARoutineWithoutADeadlineIsWokenByItsSocket(t *testing.T) {
	l := startLoop(t)
	pair := socketPair(t)
	defer unix.Close(pair[1])
	got := make(chan string, 1)
	var s Sock
	start(t, l, func(me *Task) {
		if err := l.Register(&s, pair[0], me); err != nil {
			t.Error(err)
			return
		}
		b := make([]byte, 16)
		var all []byte
		for {
			n, err := s.Read(b)
			all = append(all, b[:n]...)
			if err == ErrAgain {
				me.Wait(0)
			} else if err != nil {
				s.Close()
				got <- string(all)
				return
			}
		}
	})
	for _, word := range []string{"one ", "two ", "three"} {
		_, _ = unix.Write(pair[1], []byte(word))
		on(t, l, func() {})
	}
	_ = unix.Shutdown(pair[1], unix.SHUT_WR)
	if all := receive(t, got); all != "one two three" {
		t.Fatalf("read %q", all)
	}
}

func TestConnectedDoesNotAllocate(t *testing.T) {
	s := newSubject(t)
	s.do(func() {
		if n := testing.AllocsPerRun(100, func() {
			if !s.sock.Connected() {
				t.Error("the socket is connected")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.do(func() {
		var other Sock
		if err := s.loop.Register(&other, fd, handlerFunc(func(*Sock) {})); err != nil {
			t.Error(err)
			return
		}
		if other.Connected() {
			t.Error("a failed socket is connected")
		}
		other.Close()
	})
}

func TestALoopThatHasDisarmedItsWakeupPollerHandlesTheNextEvent(t *testing.T) {
	s := newSubject(t)
	for range 50 {
		disarmed := make(chan bool, 1)
		start(t, s.loop, func(me *Task) {
			for range 2 * busyIterations {
				me.Yield()
			}
			disarmed <- s.loop.disarmed
		})
		if !receive(t, disarmed) {
			t.Fatal("the wakeup poller reports each event of a loop that is awake")
		}
		s.send("x")
		var b [1]byte
		s.until("a byte", func() bool { n, _ := s.sock.Read(b[:]); return n == 1 })
	}
}

func TestAListenerIsServedUntilItsBacklogIsEmpty(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	const clients = 20
	accepted := make(chan struct{}, clients)
	l := startLoop(t)
	var s Sock
	on(t, l, func() {
		if err := l.RegisterListener(&s, fd, handlerFunc(func(s *Sock) {
			if c, _, err := unix.Accept4(s.FD(), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
				_ = unix.Close(c)
				accepted <- struct{}{}
			}
		})); err != nil {
			t.Error(err)
		}
	})
	// All connections arrive while the loop is blocked.
	held, release := make(chan struct{}), make(chan struct{})
	l.Post(func() { close(held); <-release })
	receive(t, held)
	for range clients {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	close(release)
	for range clients {
		receive(t, accepted)
	}
}

func TestDiscardDropsReceivedBytes(t *testing.T) {
	s := newSubject(t)
	discard := func(n, want int, wantErr error) {
		t.Helper()
		var got int
		var err error
		s.do(func() { got, err = s.sock.Discard(n, nil) })
		if got != want || !errors.Is(err, wantErr) {
			t.Fatalf("%d bytes, %v; want %d, %v", got, err, want, wantErr)
		}
	}
	discard(8, 0, ErrAgain)
	s.send("hello, world")
	s.until("readable", s.sock.Readable)
	discard(7, 7, nil)
	s.wantRead(8, "world", nil)
	discard(8, 0, ErrAgain)
	if err := s.far.Close(); err != nil {
		t.Fatal(err)
	}
	s.until("its end", s.sock.HungUp)
	discard(8, 0, io.EOF)
}

func TestReadsAfterAWriteFailedWithECONNRESETDoNotReturnEOF(t *testing.T) {
	s := newSubject(t)
	s.send("some")
	s.until("readable", s.sock.Readable)
	_ = s.far.SetLinger(0)
	_ = s.far.Close()
	s.until("failure", s.sock.Failed)
	s.do(func() {
		// The kernel reports the reset only once, to this write. It reports EOF to the
		// reads that follow, but Sock.Read must not return EOF after a reset.
		if _, err := s.sock.Write([]byte("x")); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
	})
	for range 3 {
		if b, err := s.read(8); err == io.EOF || err == nil && b != "some" {
			t.Fatalf("read %q, %v after a reset", b, err)
		}
	}
}
