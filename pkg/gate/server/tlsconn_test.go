package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/testcert"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// testTimeout ends a test that hangs. No result depends on it.
const testTimeout = 2 * time.Minute

// closingProtocol is a Protocol that closes each new connection immediately.
type closingProtocol struct{ worker *Worker }

func (closingProtocol) NewEngine(w *Worker) Engine { return closingProtocol{w} }
func (closingProtocol) NumClosing() int            { return 0 }
func (m closingProtocol) Adopt(fd int, _ netip.AddrPort, _ *loop.Layer, _ []byte) {
	m.worker.Loop.CloseDescriptor(fd)
	m.worker.Gate.Descriptors.Release()
}
func (closingProtocol) StopAccepting() bool           { return false }
func (closingProtocol) Clients() int                  { return 0 }
func (closingProtocol) Connector() exchange.Connector { return nil }
func (closingProtocol) IdleUpstreams() int            { return 0 }
func (closingProtocol) CloseIdleUpstreams()           {}

// tlsServer is a Server of one loop with a TLS port.
type tlsServer struct {
	t      *testing.T
	server *Server
	port   *TLS
	addr   string
}

func newTLSServer(t *testing.T) *tlsServer {
	t.Helper()
	g := &exchange.Gate{Config: exchange.Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(g, Config{HTTP1: closingProtocol{}, Upstream: upstream.Config{Address: netip.MustParseAddrPort("127.0.0.1:1")}, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &tlsServer{t: t, server: s, addr: ln.Addr().String()}
	f.port = &TLS{Config: &tls.Config{Certificates: []tls.Certificate{testcert.New(t).Pair(testcert.Leaf{})}}}
	if err := s.ServeTLS(ln.(*net.TCPListener), f.port); err != nil {
		t.Fatal(err)
	}
	return f
}

// do runs f on the loop.
func (s *tlsServer) do(f func(w *Worker)) {
	done := make(chan struct{})
	w := s.server.workers[0]
	w.Loop.Post(func() { defer close(done); f(w) })
	<-done
}

// send opens a connection and sends text.
func (s *tlsServer) send(text string) net.Conn {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.addr, testTimeout)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// wantEnd fails unless the server closes c.
func (s *tlsServer) wantEnd(c net.Conn) {
	s.t.Helper()
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		s.t.Error("the connection is not closed")
	}
}

func hello(t *testing.T) string {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		// Handshake sends the ClientHello. It returns when the other end of the pipe is
		// closed.
		_ = tls.Client(near, &tls.Config{ServerName: "localhost"}).Handshake()
		_ = near.Close()
	}()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// handshake completes a handshake and closes the connection.
func (s *tlsServer) handshake() error {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: testTimeout}, "tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	return c.Close()
}

func (s *tlsServer) until(what string, condition func(w *Worker) bool) {
	s.t.Helper()
	end := time.Now().Add(testTimeout)
	for ok := false; !ok; s.do(func(w *Worker) { ok = condition(w) }) {
		if time.Now().After(end) {
			s.t.Fatalf("timeout while waiting for %s", what)
		}
	}
}

func TestAnIncompleteClientHelloTimesOut(t *testing.T) {
	s := newTLSServer(t)
	c := s.send("\x16\x03\x01")
	s.until("the first byte", func(w *Worker) bool {
		first := w.tls.partial.First()
		if first != nil {
			first.handle.SetDeadline(w.Loop.Now() + 1) // instead of 10 s
		}
		return first != nil
	})
	s.wantEnd(c)
}

func TestAnIncompleteHandshakeTimesOut(t *testing.T) {
	s := newTLSServer(t)
	failed := make(chan error, 1)
	s.port.Failed = func(_ netip.AddrPort, err error) { failed <- err }
	c := s.send(hello(t))
	s.until("the handshake", func(w *Worker) bool {
		first := w.tls.handshaking.First()
		if first != nil {
			first.Since -= int64(handshakeTimeout)
			first.handle.SetDeadline(w.Loop.Now() + 1)
		}
		return first != nil
	})
	s.wantEnd(c)
	if err := <-failed; !os.IsTimeout(err) {
		t.Errorf("failed with %v", err)
	}
	if done, failed, pending := s.port.Handshakes(); done != 0 || failed != 1 || pending != 0 {
		t.Errorf("%d done, %d failed, %d pending", done, failed, pending)
	}
}

func TestAStalledHandshakeIsClosedWhileOthersAreQueued(t *testing.T) {
	s := newTLSServer(t)
	s.do(func(w *Worker) { w.tls.freeSlots = 8 })
	oldest := s.send(hello(t))
	s.until("the handshake", func(w *Worker) bool { return w.tls.handshaking.First() != nil })
	for range 20 {
		s.send(hello(t))
	}
	// On a busy machine this handshake may count as stalled, too. Then repeat it.
	for end := time.Now().Add(testTimeout); ; {
		err := s.handshake()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	s.wantEnd(oldest)
}

func TestAllQueuedHandshakesComplete(t *testing.T) {
	s := newTLSServer(t)
	s.do(func(w *Worker) { w.tls.freeSlots, w.tls.stallTimeout = 8, testTimeout })
	const clients = 50
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if err := s.handshake(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.until("the last connection", func(w *Worker) bool { return w.tls.handshaking.First() == nil })
	if done, failed, pending := s.port.Handshakes(); done != clients || failed != 0 || pending != 0 {
		t.Errorf("%d done, %d failed, %d pending", done, failed, pending)
	}
}

// disconnect sends FIN and waits until the server's kernel has received it.
func (s *tlsServer) disconnect(c net.Conn) {
	s.t.Helper()
	// finWait1 is the TCP state of the client until the server's kernel has acknowledged
	// the FIN. The state that follows depends on whether the server has closed, too.
	const finWait1 = 4
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	for state := uint8(finWait1); state == finWait1 && err == nil; {
		cerr := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
				state = info.State
			}
		})
		err = errors.Join(err, cerr)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func TestNoHandshakeBeginsForAClientThatHasDisconnected(t *testing.T) {
	disconnects := map[string]func(s *tlsServer){
		"together with its ClientHello": func(s *tlsServer) {
			s.do(func(*Worker) { s.disconnect(s.send(hello(s.t))) }) // the loop has not seen the connection yet
		},
		"while it is queued": func(s *tlsServer) {
			s.do(func(w *Worker) { w.tls.freeSlots = 0 })
			c := s.send(hello(s.t))
			var queued *tlsConn
			s.until("the queued handshake", func(w *Worker) bool { queued = w.tls.queued.First(); return queued != nil })
			s.disconnect(c)
			s.until("the end of the connection", func(w *Worker) bool { return queued.sock.HungUp() })
			s.do(func(w *Worker) {
				if w.tls.queued.First() != nil {
					s.t.Error("the connection is still queued")
					queued.startHandshake()
				}
			})
		},
		"while its handshake waits for CPU time": func(s *tlsServer) {
			cpus := s.server.handshakeSlots
			for range cap(cpus) {
				cpus <- struct{}{}
			}
			c := s.send(hello(s.t))
			s.until("the handshake", func(w *Worker) bool { return w.tls.handshaking.First() != nil })
			s.disconnect(c)
			for range cap(cpus) {
				<-cpus
			}
		},
	}
	for when, disconnect := range disconnects {
		t.Run(when, func(t *testing.T) {
			s := newTLSServer(t)
			var computed atomic.Int64
			failed := make(chan error, 1)
			s.do(func(*Worker) {
				s.port.Config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
					computed.Inc()
					return nil, nil
				}
				s.port.Failed = func(_ netip.AddrPort, err error) { failed <- err }
			})
			free := s.server.gate.Descriptors.Free()
			disconnect(s)
			if err := <-failed; err != errDisconnected {
				t.Errorf("failed with %v", err)
			}
			if n := computed.Load(); n != 0 {
				t.Errorf("%d handshakes were computed", n)
			}
			if _, failed, pending := s.port.Handshakes(); failed != 1 || pending != 0 {
				t.Errorf("%d failed, %d pending", failed, pending)
			}
			if n := s.server.gate.Descriptors.Free(); n != free {
				t.Errorf("%d descriptors are free, want %d", n, free)
			}
		})
	}
}

func TestPlaintextHTTPOnATLSPortGetsAReply(t *testing.T) {
	s := newTLSServer(t)
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "PUT /x HTTP/1.1\r\n"} {
		c := s.send(request)
		b := make([]byte, len(plaintextReply))
		if n, err := io.ReadFull(c, b); err != nil || string(b) != plaintextReply {
			t.Errorf("got %q, %v", b[:n], err)
		}
	}
	head, body, _ := strings.Cut(plaintextReply, "\r\n\r\n")
	if !strings.Contains(head, "Content-Length: 27\r\n") || len(body) != 27 {
		t.Errorf("a body of %d bytes with %q", len(body), head)
	}
}

func TestAShutdownEndsHandshakes(t *testing.T) {
	s := newTLSServer(t)
	s.do(func(w *Worker) { w.tls.freeSlots = 1 })
	first := s.send(hello(t))
	s.until("the handshake", func(w *Worker) bool { return w.tls.handshaking.First() != nil })
	queued := s.send(hello(t))
	s.until("the queued handshake", func(w *Worker) bool { return w.tls.queued.First() != nil })
	late := s.send("")
	s.until("the late connection", func(w *Worker) bool { return w.tls.silent.First() != nil })
	s.server.BeginShutdown()
	if _, err := io.WriteString(late, hello(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{first, queued, late} {
		s.wantEnd(c)
	}
	s.until("no pending handshakes", func(*Worker) bool {
		_, _, pending := s.port.Handshakes()
		return pending == 0
	})
}
