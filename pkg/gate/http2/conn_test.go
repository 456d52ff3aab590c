package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// slow is a connection whose writes wait for leave, one each.
type slow struct {
	net.Conn
	leave chan struct{}

	mu     sync.Mutex
	writes [][]byte
	closed bool
	fail   error
}

func newSlow() *slow { return &slow{leave: make(chan struct{}, 1000)} }

func (s *slow) Write(p []byte) (int, error) {
	<-s.leave
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, s.fail
	}
	s.writes = append(s.writes, bytes.Clone(p))
	return len(p), nil
}

func (s *slow) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *slow) SetReadDeadline(time.Time) error  { return nil }
func (s *slow) SetWriteDeadline(time.Time) error { return nil }

func (s *slow) state() (writes int, text string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes), string(bytes.Join(s.writes, nil)), s.closed
}

func write(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(c, text); n != len(text) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
}

func TestWhatIsWrittenDuringAWriteGoesOutTogether(t *testing.T) {
	s := newSlow()
	c := newConn(s, netip.AddrPort{}, nil)
	write(t, c, "a")
	until(t, "a write that waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.out == nil && c.flushing })
	for _, text := range []string{"b", "c", "d"} {
		write(t, c, text)
	}
	s.leave <- struct{}{}
	s.leave <- struct{}{}
	until(t, "all written", func() bool { _, text, _ := s.state(); return text == "abcd" })
	if n, _, _ := s.state(); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}

func TestCloseWaitsForWhatWasAccepted(t *testing.T) {
	s := newSlow()
	c := newConn(s, netip.AddrPort{}, nil)
	write(t, c, "last words")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, closed := s.state(); closed {
		t.Error("closed before the last words were out")
	}
	if _, err := c.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the close: %v", err)
	}
	s.leave <- struct{}{}
	until(t, "the close", func() bool { _, text, closed := s.state(); return closed && text == "last words" })
}

func TestAWriterIsHeldUpByAPeerThatDoesNotRead(t *testing.T) {
	s := newSlow()
	c := newConn(s, netip.AddrPort{}, nil)
	var mu sync.Mutex
	accepted := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			if _, err := c.Write(make([]byte, 1000)); err != nil {
				return
			}
			mu.Lock()
			accepted += 1000
			mu.Unlock()
		}
	}()
	count := func() int { mu.Lock(); defer mu.Unlock(); return accepted }
	until(t, "a full buffer", func() bool { return count() >= pendingBytes })
	if most := 2*pendingBytes + 2000; count() > most {
		t.Errorf("%d bytes accepted, want at most %d", count(), most)
	}
	for range 1000 {
		s.leave <- struct{}{}
	}
	receive(t, "all written", done)
	until(t, "all out", func() bool { _, text, _ := s.state(); return len(text) == 1_000_000 })
}

func TestAFailedWriteIsReportedToTheNext(t *testing.T) {
	s := newSlow()
	s.fail = errors.New("broken")
	c := newConn(s, netip.AddrPort{}, nil)
	write(t, c, "a")
	s.leave <- struct{}{}
	until(t, "the failure", func() bool { _, err := c.Write([]byte("b")); s.leave <- struct{}{}; return err == s.fail })
}

func TestBytesReadBeforeComeFirst(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := newConn(a, netip.AddrPort{}, []byte("first "))
	defer c.Close()
	go func() { _, _ = b.Write([]byte("then")) }()
	got := make([]byte, 10)
	for n := 0; n < len(got); {
		m, err := c.Read(got[n:min(n+3, len(got))])
		if n += m; err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != "first then" {
		t.Errorf("%q", got)
	}
}
