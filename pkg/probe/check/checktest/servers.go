// Package checktest provides well-behaved and faulty servers for tests of readiness
// checks.
package checktest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/internal/h2test"
)

// QuietLog discards the messages that a server logs about failed connections.
var QuietLog = log.New(io.Discard, "", 0)

// FailSafe is the timeout for a test that hangs.
const FailSafe = 2 * time.Minute

// ServeRaw passes each connection to handle, which must close it, and returns the port.
func ServeRaw(t *testing.T, handle func(*net.TCPConn)) int {
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
			c.SetDeadline(time.Now().Add(FailSafe))
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

// Responding returns a handler that reads once and then writes text.
func Responding(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		c.Read(make([]byte, 64<<10))
		c.Write([]byte(text))
	}
}

// Silent is a handler that reads until the peer disconnects, and writes nothing.
func Silent(c *net.TCPConn) { io.Copy(io.Discard, c) }

// Resetting is a handler that reads once and then resets the connection.
func Resetting(c *net.TCPConn) {
	c.Read(make([]byte, 1))
	c.SetLinger(0)
}

// HangingUp is a handler that reads once and then sends a FIN.
func HangingUp(c *net.TCPConn) {
	c.Read(make([]byte, 64<<10))
	c.CloseWrite()
	io.Copy(io.Discard, c)
}

// RefusingPort returns a port that refuses connections. A bound socket reserves the
// port until the test ends.
func RefusingPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	// ListenReusing needs this option to bind the same port.
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

// ServeHTTP starts a server of handler, configured by setUp, and returns its port.
func ServeHTTP(t *testing.T, handler http.Handler, setUp func(*httptest.Server)) int {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = QuietLog
	if setUp == nil {
		s.Start()
	} else {
		setUp(s)
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// OverH2C makes ServeHTTP start a server for HTTP/2 without TLS. If the parameter is
// true, the server also speaks HTTP/1.
func OverH2C(withHTTP1 bool) func(*httptest.Server) {
	return func(s *httptest.Server) { h2test.Start(s, withHTTP1) }
}

// Status returns a handler that responds with this status.
func Status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// Health returns a gRPC health server. It responds to a check of the given service with
// the given message and gRPC status. With trailersOnly it omits the message. It responds
// to any other request with HTTP status 400. The name of the service must be shorter than
// 128 bytes, so that the length fits in one byte.
func Health(service string, message []byte, status string, trailersOnly bool) http.Handler {
	request := Frame()
	if service != "" {
		request = Frame(append([]byte{1<<3 | 2, byte(len(service))}, service...)...)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != "POST", r.URL.Path != "/grpc.health.v1.Health/Check", r.Header.Get("Te") != "trailers",
			r.Header.Get("Content-Type") != "application/grpc", r.Header.Get("Grpc-Timeout") == "",
			!bytes.Equal(body, request):
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if trailersOnly {
			w.Header().Set("Grpc-Status", status)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(message)
		w.Header().Set("Grpc-Status", status)
	})
}

// Frame returns a message with the length prefix of gRPC.
func Frame(message ...byte) []byte {
	return append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
}

// ListenReusing listens on a port that RefusingPort has returned.
func ListenReusing(port int) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) // SO_REUSEPORT
		})
		return err
	}}
	return config.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
