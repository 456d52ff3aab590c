package http2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestARequestResetWithREFUSED_STREAMIsSentFourTimesWithPauses(t *testing.T) {
	var mu sync.Mutex
	var at []time.Time
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			_ = p.do(func() error { return p.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream) })
		}
		return true
	})
	r := newRig(t, up, func(o *options) {
		o.protocol, o.gate.Jitter = 2, func() float64 { return -1 }
	})
	c := r.dial()
	if g := c.await(c.open(true, request("POST", "/")...)); g.status() != "502" || g.head["k-gate-outcome"] != "upstream-reset" {
		t.Errorf("%v", g.head)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(at) != 4 {
		t.Fatalf("the container received %d requests", len(at))
	}
	for i, least := range []time.Duration{500 * time.Microsecond, 2500 * time.Microsecond, 12500 * time.Microsecond} {
		// The container reads its clock later than the gate, by a varying time. So the
		// measured pause may be too short; accept half.
		if pause := at[i+1].Sub(at[i]); pause < least/2 {
			t.Errorf("pause %d: %v, want %v", i, pause, least)
		}
	}
	if n := r.gate.Retries.Load(); n != 3 {
		t.Errorf("%d retries", n)
	}
}

// sniffPreface reports whether a connection starts with the preface of HTTP/2. The
// returned reader yields all bytes, including the first ones.
func sniffPreface(conn net.Conn) (in *bufio.Reader, h2c bool) {
	in = bufio.NewReader(conn)
	first, _ := in.Peek(3)
	return in, string(first) == "PRI"
}

func TestARequestSwitchesProtocolsAtMostOnce(t *testing.T) {
	for _, over2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("client of HTTP/2: %v", over2), func(t *testing.T) {
			var first, prefaces atomic.Int64
			up := serveRaw(t, func(conn net.Conn) {
				if _, h2c := sniffPreface(conn); h2c {
					prefaces.Inc()
					_, _ = io.WriteString(conn, "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				} else {
					first.Inc()
					_ = http2.NewFramer(conn, nil).WriteSettings()
				}
			})
			r := newRig(t, up)
			if over2 {
				c := r.dial()
				if g := c.await(c.open(true, request("POST", "/")...)); g.status() != "502" {
					t.Errorf("%v", g.head)
				}
			} else if status, body := r.get("/"); status != 502 {
				t.Errorf("%d %q", status, body)
			}
			if first.Load() != 1 || prefaces.Load() != 1 {
				t.Errorf("%d requests over HTTP/1 and %d over HTTP/2, want one each", first.Load(), prefaces.Load())
			}
		})
	}
}

func TestARequestFailsAfterEightConnectionsClosedBeforeSETTINGS(t *testing.T) {
	up := serveRaw(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	if g := c.await(c.get("/", "x-long", strings.Repeat("x", unprovenHeaderList))); g.status() != "502" {
		t.Errorf("%v", g.head)
	}
	if n := up.conns.Load(); n > maxConnects+1 {
		t.Errorf("%d connections", n)
	}
}

// An upgrade is sent only after SETTINGS. Here GOAWAY arrives with them, so no connection
// can carry the upgrade.
func TestARequestFailsAfterEightConnectionsThatAcceptNoStream(t *testing.T) {
	var hello bytes.Buffer
	framer := http2.NewFramer(&hello, nil)
	if err := errors.Join(framer.WriteSettings(), framer.WriteGoAway(0, http2.ErrCodeNo, nil)); err != nil {
		t.Fatal(err)
	}
	up := serveRaw(t, func(conn net.Conn) {
		_, _ = conn.Write(hello.Bytes())
		_, _ = io.Copy(io.Discard, conn)
	})
	r := newRig(t, up, func(o *options) { o.protocol, o.gate.RequestTimeout = 2, 10*time.Second })
	if _, _, res := r.upgrade("/"); res.StatusCode != 502 {
		t.Errorf("%v", res)
	}
	if n := up.conns.Load(); n > maxConnects+1 {
		t.Errorf("%d connections", n)
	}
}

// serveOneH2C serves HTTP/2 on one connection until it ends.
func serveOneH2C(conn net.Conn, h http.Handler) {
	ended := make(chan struct{})
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(ended)
		}
	}}
	srv.Protocols.SetUnencryptedHTTP2(true)
	ln := &oneConn{conn: conn, ended: ended}
	_ = srv.Serve(ln)
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn  net.Conn
	ended <-chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// serveBothProtocols is a container that speaks both protocols, with WebSocket over
// HTTP/1.1. While failing is set, it closes HTTP/1 connections without a response.
func serveBothProtocols(t *testing.T) (up *container, failing *atomic.Bool, over1, over2 *atomic.Int64) {
	failing, over1, over2 = new(atomic.Bool), new(atomic.Int64), new(atomic.Int64)
	up = serveRaw(t, func(conn net.Conn) {
		in, h2c := sniffPreface(conn)
		if h2c {
			serveOneH2C(&peeked{conn, in}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				over2.Inc()
				_, _ = io.WriteString(w, "over HTTP/2")
			}))
			return
		}
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			over1.Inc()
			switch {
			case failing.Load():
				return
			case req.Header.Get("Upgrade") != "":
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
				_, _ = io.Copy(conn, in)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nover HTTP/1")
		}
	})
	return up, failing, over1, over2
}

// peeked is a connection whose first bytes have been read ahead.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

func TestAConnectionClosedWithoutAResponseDoesNotDisableWebSocket(t *testing.T) {
	t.Run("before HTTP/1 is proven", func(t *testing.T) {
		up, failing, _, _ := serveBothProtocols(t)
		r := newRig(t, up)
		c := r.dial()
		c.want(c.get("/"), "200", "over HTTP/2")
		failing.Store(true)
		if status, body := r.get("/"); status != 200 || body != "over HTTP/2" {
			t.Errorf("%d %q, want a retry over the proven protocol", status, body)
		}
		failing.Store(false)
		for range 3 {
			if _, _, res := r.upgrade("/"); res.StatusCode != 101 {
				t.Fatalf("the upgrade got %v", res)
			}
		}
		if status, body := r.get("/"); status != 200 || body != "over HTTP/1" {
			t.Errorf("%d %q, want HTTP/1, which is proven", status, body)
		}
	})
	t.Run("after HTTP/1 is proven", func(t *testing.T) {
		up, failing, _, over2 := serveBothProtocols(t)
		r := newRig(t, up)
		c := r.dial()
		c.want(c.get("/"), "200", "over HTTP/2")
		if _, _, res := r.upgrade("/"); res.StatusCode != 101 {
			t.Fatalf("the upgrade got %v", res)
		}
		failing.Store(true)
		if status, body := r.get("/"); status != 502 {
			t.Errorf("%d %q", status, body)
		}
		if n := over2.Load(); n != 1 {
			t.Errorf("%d requests over HTTP/2", n)
		}
		failing.Store(false)
		if _, _, res := r.upgrade("/"); res.StatusCode != 101 {
			t.Errorf("the upgrade got %v", res)
		}
		if status, body := r.get("/"); status != 200 || body != "over HTTP/1" {
			t.Errorf("%d %q", status, body)
		}
	})
}

func TestACloseWithoutAResponseOverHTTP1IsFollowedByAnAttemptOverHTTP2(t *testing.T) {
	silent := func(t *testing.T) (*container, func() []string) {
		var mu sync.Mutex
		var received []string
		up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
			if f, ok := f.(*http2.MetaHeadersFrame); ok {
				mu.Lock()
				received = append(received, field(f, ":method"))
				mu.Unlock()
				p.respond(f.StreamID, "over HTTP/2")
			}
			return true
		})
		return up, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(received)
		}
	}
	post := func(r *rig) int {
		r.t.Helper()
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Timeout}).Post("http://"+r.addr, "", strings.NewReader("x"))
		if err != nil {
			r.t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	t.Run("an idempotent request is retried", func(t *testing.T) {
		up, received := silent(t)
		r := newRig(t, up)
		for range 3 {
			if status, body := r.get("/"); status != 200 || body != "over HTTP/2" {
				t.Fatalf("%d %q", status, body)
			}
		}
		if got := received(); !slices.Equal(got, []string{"GET", "GET", "GET"}) || up.conns.Load() != 2 {
			t.Errorf("%q on %d connections", got, up.conns.Load())
		}
	})
	t.Run("a non-idempotent request is not retried, but later ones use HTTP/2", func(t *testing.T) {
		up, received := silent(t)
		r := newRig(t, up)
		if status := post(r); status != 502 {
			t.Errorf("status %d", status)
		}
		if got := received(); len(got) > 0 {
			t.Errorf("%q", got)
		}
		if status := post(r); status != 200 {
			t.Errorf("status %d", status)
		}
		if got := received(); !slices.Equal(got, []string{"POST"}) || up.conns.Load() != 2 {
			t.Errorf("%q on %d connections", got, up.conns.Load())
		}
	})
}

func TestACloseWithoutResponseOverBothProtocolsGives502(t *testing.T) {
	var over1 atomic.Int64
	up := serveRaw(t, func(conn net.Conn) {
		if _, h2c := sniffPreface(conn); !h2c {
			over1.Inc()
		}
	})
	r := newRig(t, up)
	for i := range int64(3) {
		if status, body := r.get("/"); status != 502 || !strings.Contains(body, "upstream") {
			t.Errorf("%d %q", status, body)
		}
		if over1.Load() != i+1 {
			t.Errorf("%d requests over HTTP/1", over1.Load())
		}
	}
}

func TestHTTP2StaysDetectedAfterAConnectionFails(t *testing.T) {
	var closing atomic.Bool
	var over1, over2 atomic.Int64
	up := serveRaw(t, func(conn net.Conn) {
		in, h2c := sniffPreface(conn)
		switch {
		case !h2c:
			over1.Inc()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return
		case closing.Swap(false):
			return
		}
		serveOneH2C(&peeked{conn, in}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if over2.Inc(); r.URL.Path == "/bye" {
				_ = conn.Close()
			}
		}))
	})
	r := newRig(t, up)
	c := r.dial()
	c.want(c.get("/"), "200", "")
	closing.Store(true)
	if g := c.await(c.open(true, request("POST", "/bye")...)); g.status() != "502" {
		t.Errorf("%v", g.head)
	}
	// The gate opens a connection for this request. The container closes that connection
	// before it sends SETTINGS.
	_ = c.await(c.get("/"))
	for range 3 {
		c.want(c.get("/"), "200", "")
	}
	if over1.Load() != 0 {
		t.Errorf("%d requests over HTTP/1", over1.Load())
	}
	if k := r.choice.Known(); k != upstream.H2C {
		t.Errorf("the protocol is %v", k)
	}
}
