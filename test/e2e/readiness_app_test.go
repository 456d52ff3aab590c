package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/e2e/remote"
)

// app is an application in the test's process. It reserves its port, and refuses
// connections until it listens.
type app struct {
	t      *testing.T
	port   int
	status atomic.Int32 // status of the responses of website

	mu       sync.Mutex
	listener net.Listener
	reached  []time.Time // times of all accepted connections
	heads    []string    // heads of the requests to website
}

// server serves a listener until it is closed.
type server func(net.Listener)

func newApp(t *testing.T) *app {
	t.Helper()
	holder, err := remote.NewServer()
	must(t, err)
	a := &app{t: t}
	must(t, holder.Port(remote.None{}, &a.port))
	a.status.Store(200)
	t.Cleanup(a.unlisten)
	return a
}

func listeningApp(t *testing.T) *app {
	t.Helper()
	a := newApp(t)
	a.listen(a.website)
	return a
}

// listen starts to accept connections, and returns the time of its call of listen(2).
func (a *app) listen(s server) time.Time {
	a.t.Helper()
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		}), err)
	}}
	began := time.Now()
	l, err := shared.Listen(context.Background(), "tcp4", fmt.Sprintf("127.0.0.1:%d", a.port))
	must(a.t, err)
	a.mu.Lock()
	a.listener = l
	a.mu.Unlock()
	go s(noting{l, a})
	return began
}

// unlisten stops accepting, so that connections are refused.
func (a *app) unlisten() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener != nil {
		// A child that has not yet executed its program still holds the listener, so that
		// connections would not be refused.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		_ = a.listener.Close()
		a.listener = nil
	}
}

// noting records the times of accepted connections.
type noting struct {
	net.Listener
	app *app
}

func (l noting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.app.mu.Lock()
		l.app.reached = append(l.app.reached, time.Now())
		l.app.mu.Unlock()
	}
	return c, err
}

func (a *app) times() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time(nil), a.reached...)
}

func (a *app) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.reached)
}

func (a *app) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.heads...)
}

// website responds to each request with a.status and "ok", and closes.
func (a *app) website(l net.Listener) {
	raw(func(c *net.TCPConn) {
		defer c.Close()
		head, err := readHead(c)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.heads = append(a.heads, head)
		a.mu.Unlock()
		fmt.Fprintf(c, "HTTP/1.1 %d Status\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", a.status.Load())
	})(l)
}

// raw returns a server that accepts connections. For every connection, the server starts
// a goroutine that calls the function each.
func raw(each func(*net.TCPConn)) server {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go each(c.(*net.TCPConn))
		}
	}
}

// saying returns a server that reads one request head from each connection. It then sends
// the text in the parameter response, and closes the connection.
func saying(response string) server {
	return raw(func(c *net.TCPConn) {
		defer c.Close()
		if _, err := readHead(c); err != nil {
			return
		}
		_, _ = io.WriteString(c, response)
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
}

// silent accepts connections and sends nothing.
func silent(t *testing.T) server {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	return raw(func(c *net.TCPConn) {
		<-done
		_ = c.Close()
	})
}

func readHead(c net.Conn) (string, error) {
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	r := bufio.NewReader(c)
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

// h2c serves HTTP/2 without TLS and nothing else.
func h2c(h http.HandlerFunc) server { return httpServer(h, (*http.Protocols).SetUnencryptedHTTP2) }

// http1 serves HTTP/1 and nothing else.
func http1(h http.HandlerFunc) server { return httpServer(h, (*http.Protocols).SetHTTP1) }

func httpServer(h http.HandlerFunc, speak func(*http.Protocols, bool)) server {
	return func(l net.Listener) {
		s := &http.Server{Handler: h, Protocols: new(http.Protocols), ErrorLog: quiet}
		speak(s.Protocols, true)
		_ = s.Serve(l)
	}
}

// https serves with an untrusted certificate.
func https(h http.HandlerFunc) server {
	return func(l net.Listener) {
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		s.Config.ErrorLog = quiet
		s.TLS = &tls.Config{}
		s.StartTLS()
	}
}

// health is a gRPC health service. Each response has the given gRPC status. It also has
// the given message if the status is 0 (OK). If the given function is not nil, it is
// called with the path and the message of each request.
func health(status int, message string, onProbe func(path, message string)) server {
	return h2c(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if onProbe != nil {
			onProbe(r.URL.Path, string(body))
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		if status == 0 {
			_, _ = io.WriteString(w, message)
		}
		w.Header().Set("Grpc-Status", fmt.Sprint(status))
	})
}

// gRPC messages: HealthCheckResponse with SERVING and NOT_SERVING.
const (
	serving    = "\x00\x00\x00\x00\x02\x08\x01"
	notServing = "\x00\x00\x00\x00\x02\x08\x02"
)
