package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
)

// scriptedHandshaker is a Handshaker whose handshake is a function.
type scriptedHandshaker struct {
	*Layer
	handshake func() error
}

func (c scriptedHandshaker) Handshake() error  { return c.handshake() }
func (c scriptedHandshaker) CloseWrite() error { return nil }

func startHandshakeWith(t *testing.T, run func(*Layer) error, slots chan struct{}) *secured {
	t.Helper()
	s := newWire(t)
	s.do(func() {
		s.sock.StartHandshake(s.layer, scriptedHandshaker{s.layer, func() error { return run(s.layer) }}, slots, s)
	})
	return s
}

func (s *secured) awaitBlocked() {
	s.t.Helper()
	for waits := false; !waits; {
		s.do(func() { waits = s.sock.HandshakeWaitingSince() != 0 })
	}
}

func TestAHandshakeDoesNotBlockTheLoop(t *testing.T) {
	ca := testcert.New(t)
	s := newWire(t)
	server := tls.Server(s.wire, &tls.Config{Certificates: []tls.Certificate{ca.Pair(testcert.Leaf{})}})
	s.do(func() {
		s.sock.StartHandshake(s.layer, tls.Client(s.layer, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}), nil, s)
	})
	s.awaitBlocked()
	s.do(func() {
		if over, err := s.sock.HandshakeDone(); over || err != nil {
			t.Errorf("done %v, %v, before the peer has sent anything", over, err)
		}
	})
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(server, "first"); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitHandshake(); err != nil {
		t.Fatal(err)
	}
	s.until("readable", s.sock.Readable)
	s.wantRead(8, "first", nil)
}

func TestAHandshakeThatFailsLeavesTheSocketWithoutALayer(t *testing.T) {
	s := newHandshaking(t, &tls.Config{}, nil)
	if _, err := io.WriteString(s.wire, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitHandshake(); !errors.As(err, new(tls.RecordHeaderError)) {
		t.Fatalf("got %v", err)
	}
	s.do(func() {
		if s.sock.Layered() {
			t.Error("the socket still has a layer")
		}
		if _, err := s.sock.Write([]byte("plain")); err != nil {
			t.Error(err)
		}
		s.sock.CloseWrite()
	})
	if b, err := io.ReadAll(s.wire); string(b) != "plain" || err != nil {
		t.Errorf("the peer read %q, %v", b, err)
	}
}

func TestAHandshakeThatPanicsFails(t *testing.T) {
	s := startHandshakeWith(t, func(*Layer) error { panic("boom") }, nil)
	if err := s.awaitHandshake(); err == nil || err.Error() != "panic: boom" {
		t.Errorf("got %v", err)
	}
}

func TestAClosedSocketEndsItsHandshake(t *testing.T) {
	ended := make(chan error, 1)
	s := startHandshakeWith(t, func(l *Layer) error {
		_, err := l.Read(make([]byte, 1))
		_, again := l.Read(make([]byte, 1))
		_, written := l.Write([]byte("x"))
		ended <- errors.Join(err, again, written)
		return err
	}, nil)
	s.awaitBlocked()
	s.do(s.sock.Close)
	if err := receive(t, ended); err == nil {
		t.Error("no error on a socket that is closed")
	}
	if b, err := io.ReadAll(s.wire); len(b) > 0 || err != nil {
		t.Errorf("the peer read %q, %v", b, err)
	}
}

// The message is too long for one write.
func TestAHandshakeWritesAllOfALongMessage(t *testing.T) {
	const length = 8 << 20
	s := startHandshakeWith(t, func(l *Layer) error {
		n, err := l.Write(make([]byte, length))
		if err == nil && n != length {
			err = io.ErrShortWrite
		}
		return err
	}, nil)
	s.awaitBlocked()
	if n, err := io.Copy(io.Discard, io.LimitReader(s.wire, length)); n != length || err != nil {
		t.Fatalf("the peer read %d bytes, %v", n, err)
	}
	if err := s.awaitHandshake(); err != nil {
		t.Error(err)
	}
}

// The second handshake begins when the first waits for its peer and releases the only
// slot.
func TestAHandshakeReleasesItsSlotOnlyWhileItWaitsForItsPeer(t *testing.T) {
	slots := make(chan struct{}, 1)
	begun, compute := make(chan struct{}), make(chan struct{})
	first := startHandshakeWith(t, func(l *Layer) error {
		close(begun)
		<-compute
		_, err := l.Read(make([]byte, 1))
		return err
	}, slots)
	receive(t, begun)
	second := make(chan struct{})
	other := startHandshakeWith(t, func(*Layer) error { close(second); return nil }, slots)
	on(t, other.loop, func() {
		select {
		case <-second:
			t.Error("the handshake began without a slot")
		default:
		}
	})
	close(compute)
	receive(t, second)
	if err := other.awaitHandshake(); err != nil {
		t.Error(err)
	}
	if _, err := first.wire.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := first.awaitHandshake(); err != nil {
		t.Error(err)
	}
	if len(slots) != 0 {
		t.Error("a slot is still held")
	}
}

func TestAPeerThatDisconnectsEndsItsHandshake(t *testing.T) {
	s := newHandshaking(t, &tls.Config{}, nil)
	s.awaitBlocked()
	if err := s.wire.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := s.wire.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitHandshake(); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}
