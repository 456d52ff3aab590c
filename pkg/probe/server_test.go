package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// failSafe ends a test that hangs; no outcome depends on it.
const failSafe = 20 * time.Second

// serveRaw gives each connection to handle, which owns it, and returns the port.
func serveRaw(t *testing.T, handle func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(failSafe))
			conns.Go(func() {
				handle(c.(*net.TCPConn))
				c.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// answering reads what comes first and writes text.
func answering(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		c.Read(make([]byte, 64<<10))
		c.Write([]byte(text))
	}
}

// silent reads until the other side goes.
func silent(c *net.TCPConn) { io.Copy(io.Discard, c) }

// resetting drops the connection with a reset once it has been read from.
func resetting(c *net.TCPConn) {
	c.Read(make([]byte, 1))
	c.SetLinger(0)
}

// hangingUp reads what comes and closes in peace.
func hangingUp(c *net.TCPConn) {
	c.Read(make([]byte, 64<<10))
	c.CloseWrite()
	io.Copy(io.Discard, c)
}

// refusingPort is a port that nothing listens on: it is bound, so nobody else
// gets it while the test runs.
func refusingPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	// For listenReusing.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, 15, 1); err != nil { // SO_REUSEPORT
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet4).Port
}

// serveHTTP serves handler over the protocols that set up chooses.
func serveHTTP(t *testing.T, handler http.Handler, setUp func(*httptest.Server)) int {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = quietLog
	if setUp == nil {
		s.Start()
	} else {
		setUp(s)
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// overH2C makes the server speak HTTP/2 without TLS, and HTTP/1 too if both.
func overH2C(both bool) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Config.Protocols.SetHTTP1(both)
		s.Start()
	}
}

// probeOnce runs one attempt with a fail-safe for a deadline.
func probeOnce(t *testing.T, p Prober) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), failSafe)
	defer cancel()
	return p.Probe(ctx)
}

// probeBriefly is for servers that never answer.
func probeBriefly(t *testing.T, p Prober) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	return p.Probe(ctx)
}

func httpAt(port int, change ...func(*Spec)) Prober {
	s := Spec{Kind: HTTP, Host: "127.0.0.1", Port: port, Scheme: "http", Path: "/"}
	for _, f := range change {
		f(&s)
	}
	return NewProber(s)
}

func overTLS(s *Spec) { s.Scheme = "https" }

func path(p string) func(*Spec) { return func(s *Spec) { s.Path = p } }

func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// openFiles counts this process's file descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	n := 0
	for fd := range 4096 {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); !errors.Is(err, syscall.EBADF) {
			n++
		}
	}
	return n
}

func portText(port int) string { return strconv.Itoa(port) }
