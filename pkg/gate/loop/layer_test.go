package loop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
)

// secured is a socket with a TLS layer, and the client at the other end.
type secured struct {
	*subject
	client *tls.Conn
	wire   *net.TCPConn // TCP connection of client
	layer  *Layer
}

func newSecured(t *testing.T, version uint16) *secured {
	t.Helper()
	ca := testcert.New(t)
	s := newHandshaking(t, &tls.Config{Certificates: []tls.Certificate{ca.Pair(testcert.Leaf{})}, MaxVersion: version}, nil)
	s.client = tls.Client(s.wire, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
	if err := s.client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitHandshake(); err != nil {
		t.Fatal(err)
	}
	s.wantRead(1, "", ErrAgain)
	return s
}

// newHandshaking begins the handshake of a server on a socket.
func newHandshaking(t *testing.T, config *tls.Config, slots chan struct{}) *secured {
	t.Helper()
	s := newWire(t)
	s.do(func() { s.sock.StartHandshake(s.layer, tls.Server(s.layer, config), slots, s) })
	return s
}

// newWire returns a socket that is registered with a loop, and a new layer for this
// socket. The field wire of the result is the other end of the connection.
func newWire(t *testing.T) *secured {
	t.Helper()
	s := &secured{subject: newSubject(t), layer: &Layer{}}
	s.wire = s.far
	return s
}

// Wake implements Waker.
func (s *secured) Wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *secured) awaitHandshake() (err error) {
	s.t.Helper()
	s.until("the end of the handshake", func() (over bool) {
		over, err = s.sock.HandshakeDone()
		return over
	})
	return err
}

func (s *secured) sendFromClient(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.client, text); err != nil {
		s.t.Fatal(err)
	}
}

// eachTLSVersion runs f with TLS 1.2 and 1.3.
func eachTLSVersion(t *testing.T, f func(t *testing.T, s *secured)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { f(t, newSecured(t, version)) })
	}
}

func TestReadsThroughALayerReturnDecodedBytes(t *testing.T) {
	eachTLSVersion(t, func(t *testing.T, s *secured) {
		for range 3 {
			s.sendFromClient("hello")
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

func TestAPartialRecordIsNotReadable(t *testing.T) {
	eachTLSVersion(t, func(t *testing.T, s *secured) {
		events, handler := 0, s.sock.handler
		s.do(func() { s.sock.SetHandler(handlerFunc(func(k *Sock) { events++; handler.Event(k) })) })
		if _, err := s.wire.Write([]byte{23, 3, 3}); err != nil {
			t.Fatal(err)
		}
		s.until("an event", func() bool { return events > 0 })
		s.do(func() {
			if s.sock.Readable() {
				t.Error("readable after three bytes of a record")
			}
		})
		s.wantRead(8, "", ErrAgain)
	})
}

func TestEndedDetectsACloseNotifyWithoutAReadByTheCaller(t *testing.T) {
	eachTLSVersion(t, func(t *testing.T, s *secured) {
		s.sendFromClient("unread")
		s.until("readable", s.sock.Readable)
		s.wantRead(8, "unread", nil)
		if err := s.client.CloseWrite(); err != nil { // close_notify without FIN
			t.Fatal(err)
		}
		s.until("hung up", s.sock.HungUp)
		s.do(func() {
			if !s.sock.AtEOF() || s.sock.Quiet() || s.sock.Failed() {
				t.Errorf("ended %v, quiet %v, failed %v", s.sock.AtEOF(), s.sock.Quiet(), s.sock.Failed())
			}
		})
		s.wantRead(8, "", io.EOF)
		s.wantRead(8, "", io.EOF)
	})
}

func TestAnEOFWithoutCloseNotifyIsATruncation(t *testing.T) {
	eachTLSVersion(t, func(t *testing.T, s *secured) {
		s.sendFromClient("some")
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
	eachTLSVersion(t, func(t *testing.T, s *secured) {
		if _, err := s.wire.Write(append([]byte{23, 3, 3, 0, 32}, make([]byte, 32)...)); err != nil {
			t.Fatal(err)
		}
		s.until("failed", s.sock.Failed)
		if _, err := s.read(8); err == nil || err == ErrAgain || errors.Is(err, io.EOF) {
			t.Errorf("read %v", err)
		}
	})
}

func TestBytesCountAsWrittenWhenTheKernelHasAcceptedThem(t *testing.T) {
	eachTLSVersion(t, func(t *testing.T, s *secured) {
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
			t.Fatal("the kernel accepted everything")
		}
		got := make(chan []byte, 1)
		go func() {
			b, _ := io.ReadAll(s.client)
			got <- b
		}()
		s.until("all is written", func() bool { push(); return at == total })
		s.do(s.sock.CloseWrite)
		if b := receive(t, got); !bytes.Equal(b, sent) {
			t.Errorf("%d bytes arrived, or with different content", len(b))
		}
	})
}

func TestCloseWriteSendsPendingBytesBeforeTheEnd(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	b := make([]byte, 64<<10)
	var taken int
	s.do(func() {
		for s.sock.Writable() {
			n, _ := s.sock.Write(b)
			taken += n
		}
		if !s.sock.HasUnreported() {
			t.Error("no unreported bytes while bytes are pending")
		}
		taken += s.layer.unreported // will be sent, although not reported by Write
		s.sock.CloseWrite()
		if s.sock.Finish() {
			t.Error("the end was sent before pending bytes")
		}
	})
	if got, err := io.ReadAll(s.client); len(got) != taken || err != nil {
		t.Errorf("%d bytes and %v, want %d and the end", len(got), err, taken)
	}
	// Only a FIN follows.
	if n, err := s.wire.Read(b); n != 0 || err != io.EOF {
		t.Errorf("%d bytes and %v after the end", n, err)
	}
}

func TestClosingASocketWithoutFinishSendsNoCloseNotify(t *testing.T) {
	for _, finish := range []bool{false, true} {
		s := newSecured(t, tls.VersionTLS13)
		s.do(func() {
			if finish && !s.sock.Finish() {
				t.Error("the end was not sent")
			}
			s.sock.Close()
		})
		b, err := io.ReadAll(s.wire)
		if alert := len(b) > 0; alert != finish || err != nil {
			t.Errorf("finish %v: %d bytes and %v on the wire", finish, len(b), err)
		}
	}
}

func TestQuietDetectsBytesBeforeTheirEventOnASocketWithALayer(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	s.do(func() {
		if !s.sock.Quiet() {
			t.Error("not quiet with nothing sent")
		}
		s.sendFromClient("x")
		waitForBytes(t, s.sock.FD())
		// This function blocks the loop, so the loop has not delivered the event of these
		// bytes. Quiet must notice them without the event.
		if s.sock.Quiet() {
			t.Error("quiet with a record pending")
		}
	})
	s.wantRead(8, "x", nil)
}

func waitForBytes(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testTimeout/time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestAWritableSocketDoesNotMakeALayerReadable(t *testing.T) {
	s := newSecured(t, tls.VersionTLS13)
	s.sendFromClient("all")
	s.until("readable", s.sock.Readable)
	s.wantRead(8, "all", nil)
	s.do(func() {
		s.sock.note(unix.EPOLLOUT)
		if s.sock.Readable() {
			t.Error("readable with nothing to read")
		}
	})
}

// amplifier is a codec that writes 1 KiB for each byte that it reads.
type amplifier struct {
	layer *Layer
	b     [1]byte
	text  [1 << 10]byte
}

func (e *amplifier) Read(b []byte) (int, error) {
	for {
		if _, err := e.layer.Read(e.b[:]); err != nil {
			return 0, err
		}
		if _, err := e.layer.Write(e.text[:]); err != nil {
			return 0, err
		}
	}
}
func (e *amplifier) Write(b []byte) (int, error) { return e.layer.Write(b) }
func (e *amplifier) CloseWrite() error           { return nil }

func TestAPeerThatSendsAndNeverReadsIsDisconnected(t *testing.T) {
	s := newWire(t)
	s.layer.codec = &amplifier{layer: s.layer}
	s.do(func() { s.sock.Wrap(s.layer) })
	b := make([]byte, 64<<10)
	s.until("failed", func() bool {
		if len(s.layer.pending) > maxPending {
			t.Fatalf("%d bytes pending", len(s.layer.pending))
		}
		if _, err := s.wire.Write(b); err != nil {
			t.Logf("the peer's write: %v", err)
		}
		return s.sock.Failed()
	})
}
