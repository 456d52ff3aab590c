package embed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

// dial opens a connection and sends text.
func (r *rig) dial(text string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	return c
}

const upgrade = "GET /tunnel HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

// hijack returns a handler that hijacks its connection and sends it to c.
func hijack(t *testing.T, c chan<- net.Conn) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tunnel" {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		c <- conn
	}
}

func TestAHijackedConnectionHoldsItsSlotUntilItIsClosed(t *testing.T) {
	conns := make(chan net.Conn, 1)
	r := newRig(t, "HTTP/1.1", Config{ConcurrencyLimit: 1, RequestTimeout: time.Hour}, hijack(t, conns))
	client := r.dial(upgrade)
	server := testkit.Receive(t, "the connection", conns)
	in := bufio.NewReader(client)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("answer %v, %v", res, err)
	}
	refused := r.do("GET", "/", "")
	refused.want(t, 503, "pending request queue full\n", "queue-full")

	// The hijacked connection supports ReadFrom and CloseWrite, like a *net.TCPConn.
	if n, err := server.(io.ReaderFrom).ReadFrom(strings.NewReader("to the client\n")); n != 14 || err != nil {
		t.Errorf("sent %d, %v", n, err)
	}
	if err := server.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(in); string(text) != "to the client\n" || err != nil {
		t.Errorf("the client got %q, %v", text, err)
	}
	if _, ok := server.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn); !ok {
		t.Error("no way to the connection itself")
	}
	if n := r.gate.InFlight(); n != 1 {
		t.Errorf("%d in flight while the connection is open", n)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again: %v", err)
	}
	if n := r.gate.InFlight(); n != 0 {
		t.Errorf("%d in flight after it", n)
	}
	r.gate.wantOutcome(t, "tunnelled", 1)
	after := r.do("GET", "/", "")
	after.want(t, 200, "", "")
}

func TestHijackedConnectionsRemainOpenAfterADrain(t *testing.T) {
	conns := make(chan net.Conn, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, "HTTP/1.1", Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		hijack(t, conns)(w, r)
	})
	client := bufio.NewReader(r.dial(upgrade))
	<-begun
	drained := make(chan error, 1)
	go func() { drained <- r.gate.Drain(context.Background()) }()
	<-r.gate.Draining()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.gate.Drain(ended); !errors.Is(err, context.Canceled) || err.Error() != "draining with 1 in flight and 0 queued: context canceled" {
		t.Errorf("drain: %v", err)
	}
	close(goOn) // the request becomes a tunnel
	if err := testkit.Receive(t, "the end of the drain", drained); err != nil {
		t.Error(err)
	}
	server := testkit.Receive(t, "the connection", conns)
	if res, err := http.ReadResponse(client, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("answer %v, %v", res, err)
	}
	const bye = "\x88\x02\x03\xe9" // a close frame (RFC 6455 section 5.5.1)
	if _, err := io.WriteString(server, bye); err != nil {
		t.Error(err)
	}
	_ = server.Close()
	if got, err := io.ReadAll(client); string(got) != bye || err != nil {
		t.Errorf("the client got %q, %v", got, err)
	}
}

func TestAPanicAfterHijackingReleasesTheSlotOnce(t *testing.T) {
	conns := make(chan net.Conn, 1)
	r := newRig(t, "HTTP/1.1", Config{ConcurrencyLimit: 1}, func(w http.ResponseWriter, req *http.Request) {
		hijack(t, conns)(w, req)
		panic("a bug")
	})
	r.dial(upgrade)
	server := testkit.Receive(t, "the connection", conns)
	until(t, "a free slot", func() bool { return r.gate.InFlight() == 0 })
	_ = server.Close() // the panic has released the slot, so Close must not release another one
	r.gate.wantOutcome(t, "internal-error", 1)
	r.gate.wantOutcome(t, "tunnelled", 0)
}
