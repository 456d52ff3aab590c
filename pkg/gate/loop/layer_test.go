package loop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
)

// secured is a socket with TLS between it and its user, and the client at the
// other end. Both handshakes are over.
type secured struct {
	*subject
	client *tls.Conn
	wire   *net.TCPConn // beneath the client
	layer  *Layer
}

func newSecured(t *testing.T, version uint16) *secured {
	t.Helper()
	ca := testcert.New(t)
	s := &secured{subject: &subject{t: t, loop: startLoop(t), news: make(chan struct{}, 1)}}
	fd, far := tcpPair(t)
	near := fileConn(t, fd)
	s.far, s.wire = far, far
	s.client = tls.Client(far, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
	s.layer = NewLayer(near)
	server := tls.Server(s.layer, &tls.Config{Certificates: []tls.Certificate{ca.Pair(testcert.Leaf{})}, MaxVersion: version})
	s.layer.SetCodec(server)
	shaken := make(chan error, 1)
	go func() { shaken <- s.client.Handshake() }()
	if err := errors.Join(server.Handshake(), receive(t, shaken)); err != nil {
		t.Fatal(err)
	}
	s.wrap(descriptor(t, near))
	return s
}

// wrap registers fd with the layer above it.
func (s *secured) wrap(fd int) {
	s.t.Helper()
	s.do(func() {
		if err := s.loop.Register(&s.sock, fd, handlerFunc(func(*Sock) {
			select {
			case s.news <- struct{}{}:
			default:
			}
		})); err != nil {
			s.t.Error(err)
			return
		}
		s.sock.Wrap(s.layer)
	})
	s.wantRead(1, "", ErrAgain)
}

// fileConn makes a connection of the runtime's poller of fd, which it takes.
func fileConn(t *testing.T, fd int) *net.TCPConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "near")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// descriptor is a descriptor of c, which it closes.
func descriptor(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return fd
}

func (s *secured) say(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.client, text); err != nil {
		s.t.Fatal(err)
	}
}

// everyVersion runs f with TLS 1.2 and 1.3.
func everyVersion(t *testing.T, f func(t *testing.T, s *secured)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { f(t, newSecured(t, version)) })
	}
}

func TestTheUserOfALayerSeesDecodedBytes(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		for range 3 {
			s.say("hello")
			s.until("readable", s.sock.Readable)
			s.wantRead(3, "hel", nil)
			s.wantRead(8, "lo", nil)
			s.wantRead(8, "", ErrAgain)
			s.do(func() {
				if n, err := s.sock.Write([]byte("answer")); n != 6 || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			})
			b := make([]byte, 6)
			if _, err := io.ReadFull(s.client, b); err != nil || string(b) != "answer" {
				t.Fatalf("the client read %q, %v", b, err)
			}
		}
	})
}

func TestAPartOfARecordIsNothingToRead(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		events, handler := 0, s.sock.handler
		s.do(func() { s.sock.Handle(handlerFunc(func(k *Sock) { events++; handler.Event(k) })) })
		if _, err := s.wire.Write([]byte{23, 3, 3}); err != nil {
			t.Fatal(err)
		}
		s.until("an event", func() bool { return events > 0 })
		s.do(func() {
			if s.sock.Readable() {
				t.Error("readable with three bytes of a record")
			}
		})
		s.wantRead(8, "", ErrAgain)
	})
}

func TestTheEndOfALayerIsSeenThoughNobodyReads(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		s.say("unread")
		s.until("readable", s.sock.Readable)
		s.wantRead(8, "unread", nil)
		if err := s.client.CloseWrite(); err != nil { // close_notify, no FIN
			t.Fatal(err)
		}
		s.until("hung up", s.sock.HungUp)
		s.do(func() {
			if !s.sock.Ended() || s.sock.Quiet() || s.sock.Failed() {
				t.Errorf("ended %v, quiet %v, failed %v", s.sock.Ended(), s.sock.Quiet(), s.sock.Failed())
			}
		})
		s.wantRead(8, "", io.EOF)
		s.wantRead(8, "", io.EOF)
	})
}

func TestAnEndWithoutThatOfTheLayerIsACut(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		s.say("some")
		if err := s.wire.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		s.until("hung up", s.sock.HungUp)
		s.wantRead(8, "some", nil)
		s.wantRead(8, "", io.ErrUnexpectedEOF)
		s.wantRead(8, "", io.ErrUnexpectedEOF)
	})
}

func TestAForgedRecordFailsTheSocket(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		if _, err := s.wire.Write(append([]byte{23, 3, 3, 0, 32}, make([]byte, 32)...)); err != nil {
			t.Fatal(err)
		}
		s.until("failed", s.sock.Failed)
		if _, err := s.read(8); err == nil || err == ErrAgain || errors.Is(err, io.EOF) {
			t.Errorf("read %v", err)
		}
	})
}

func TestAWriteCountsWhenTheKernelHasIt(t *testing.T) {
	everyVersion(t, func(t *testing.T, s *secured) {
		const total = 8 << 20
		sent := make([]byte, total)
		for i := range sent {
			sent[i] = byte(i * 7)
		}
		at, full := 0, false
		push := func() {
			for at < total {
				n, err := s.sock.Write(sent[at:min(at+100_000, total)])
				if n > 0 && err != nil || len(s.layer.pending) > maxPending {
					t.Errorf("%d bytes and %v; %d pending", n, err, len(s.layer.pending))
				}
				if at += n; err == ErrAgain {
					full = true
					if s.sock.Writable() {
						t.Error("writable with bytes pending")
					}
					return
				} else if err != nil {
					t.Error(err)
					at = total
				}
			}
		}
		s.do(push)
		if !full {
			t.Fatal("the kernel took everything")
		}
		got := make(chan []byte, 1)
		go func() {
			b, _ := io.ReadAll(s.client)
			got <- b
		}()
		s.until("all is written", func() bool { push(); return at == total })
		s.do(s.sock.CloseWrite)
		if b := receive(t, got); !bytes.Equal(b, sent) {
			t.Errorf("%d bytes arrived, or others than were sent", len(b))
		}
	})
}

func TestTheEndGoesOutBehindWhatIsPending(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	b := make([]byte, 64<<10)
	var taken int
	s.do(func() {
		for s.sock.Writable() {
			n, _ := s.sock.Write(b)
			taken += n
		}
		if !s.sock.Begun() {
			t.Error("no part of a write has begun, with bytes pending")
		}
		taken += s.layer.owed // encoded: they will arrive
		s.sock.CloseWrite()
		if s.sock.Finish() {
			t.Error("the end has gone out before what is pending")
		}
	})
	if got, err := io.ReadAll(s.client); len(got) != taken || err != nil {
		t.Errorf("%d bytes and %v, want %d and the end", len(got), err, taken)
	}
	// And FIN behind it: the wire has nothing more.
	if n, err := s.wire.Read(b); n != 0 || err != io.EOF {
		t.Errorf("%d bytes and %v behind the end", n, err)
	}
}

func TestACloseWithoutFinishReadsAsACut(t *testing.T) {
	for _, finish := range []bool{false, true} {
		s := newSecured(t, tls.VersionTLS13)
		s.do(func() {
			if finish && !s.sock.Finish() {
				t.Error("the end has not gone out")
			}
			s.sock.Close()
		})
		b, err := io.ReadAll(s.wire)
		if alert := len(b) > 0; alert != finish || err != nil {
			t.Errorf("finish %v: %d bytes and %v on the wire", finish, len(b), err)
		}
	}
}

func TestAQuietLayerLooksAtTheWire(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	s.do(func() {
		if !s.sock.Quiet() {
			t.Error("not quiet with nothing sent")
		}
		s.say("x")
		waitForBytes(t, s.sock.FD())
		if s.sock.Quiet() { // no event has been delivered: this is the loop
			t.Error("quiet with a record pending")
		}
	})
	s.wantRead(8, "x", nil)
}

// waitForBytes waits until fd has something to read.
func waitForBytes(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testTimeout/time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestRoomToWriteDoesNotMakeALayerReadable(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	s.say("all")
	s.until("readable", s.sock.Readable)
	s.wantRead(8, "all", nil)
	s.do(func() {
		s.sock.note(unix.EPOLLOUT)
		if s.sock.Readable() {
			t.Error("readable with nothing to read")
		}
	})
}

// echoing answers each byte that it reads with a kibibyte.
type echoing struct {
	layer *Layer
	b     [1]byte
	text  [1 << 10]byte
}

func (e *echoing) Read(b []byte) (int, error) {
	for {
		if _, err := e.layer.Read(e.b[:]); err != nil {
			return 0, err
		}
		if _, err := e.layer.Write(e.text[:]); err != nil {
			return 0, err
		}
	}
}
func (e *echoing) Write(b []byte) (int, error) { return e.layer.Write(b) }
func (e *echoing) CloseWrite() error           { return nil }

func TestAPeerThatAsksAndNeverReadsIsCutOff(t *testing.T) {
	s := &secured{subject: &subject{t: t, loop: startLoop(t), news: make(chan struct{}, 1)}}
	fd, far := tcpPair(t)
	s.far = far
	s.layer = NewLayer(nil)
	s.layer.SetCodec(&echoing{layer: s.layer})
	s.wrap(fd)
	b := make([]byte, 64<<10)
	s.until("failed", func() bool {
		if len(s.layer.pending) > maxPending {
			t.Fatalf("%d bytes pending", len(s.layer.pending))
		}
		if _, err := far.Write(b); err != nil {
			t.Logf("the peer's write: %v", err)
		}
		return s.sock.Failed()
	})
}

func TestAHandshakeOnALoopWaitsInItsTask(t *testing.T) {
	ca := testcert.New(t)
	l := startLoop(t)
	fd, far := tcpPair(t)
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{ca.Pair(testcert.Leaf{})}})
	began, done := make(chan struct{}), make(chan string, 1)
	var sock Sock
	start(t, l, func(task *Task) {
		layer := NewLayer(nil)
		client := tls.Client(layer, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
		layer.SetCodec(client)
		if err := l.Register(&sock, fd, task); err != nil {
			done <- err.Error()
			return
		}
		defer sock.Close()
		sock.Wrap(layer)
		close(began)
		if err := layer.Shake(task, 0, client.Handshake, func() error { return nil }); err != nil {
			done <- err.Error()
			return
		}
		b := make([]byte, 16)
		for {
			n, err := sock.Read(b)
			if err == ErrAgain {
				task.Wait(0)
				continue
			}
			done <- string(b[:n])
			return
		}
	})
	receive(t, began)
	on(t, l, func() {}) // the loop is free while the handshake waits
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, done); got != "first" {
		t.Errorf("got %q", got)
	}
}

func TestAHandshakeOnALoopEndsWithItsDeadlineOrWhenGivenUp(t *testing.T) {
	errGivenUp := errors.New("given up")
	for _, c := range []struct {
		name   string
		within time.Duration
		giveUp func() error
		want   error
	}{
		{"deadline", time.Millisecond, func() error { return nil }, unix.ETIMEDOUT},
		{"given up", time.Hour, func() error { return errGivenUp }, errGivenUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := startLoop(t)
			fd, _ := tcpPair(t)
			done := make(chan error, 1)
			var sock Sock
			start(t, l, func(task *Task) {
				layer := NewLayer(nil)
				client := tls.Client(layer, &tls.Config{InsecureSkipVerify: true})
				layer.SetCodec(client)
				if err := l.Register(&sock, fd, task); err != nil {
					done <- err
					return
				}
				defer sock.Close()
				sock.Wrap(layer)
				done <- layer.Shake(task, l.Now()+int64(c.within), client.Handshake, c.giveUp)
			})
			if err := receive(t, done); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
