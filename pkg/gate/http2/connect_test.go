package http2

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// serveWebSocket is a container that sends hello and echoes DATA. It accepts extended
// CONNECT if its SETTINGS offer it.
func serveWebSocket(t *testing.T, offers bool) *container {
	var settings []http2.Setting
	if offers {
		settings = append(settings, http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1})
	}
	return serveFrames(t, settings, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			switch {
			case field(f, ":method") != "CONNECT":
				p.respond(f.StreamID, "no WebSocket")
			case !offers:
				t.Error("extended CONNECT, which was not offered")
			case field(f, ":path") == "/no":
				p.head(f.StreamID, true, ":status", "403")
			default:
				if field(f, ":protocol") != "websocket" || field(f, "sec-websocket-version") != "13" ||
					field(f, "sec-websocket-key") != "" || field(f, "upgrade") != "" || field(f, "connection") != "" || f.StreamEnded() {
					t.Errorf("request %v", f.Fields)
				}
				p.head(f.StreamID, false, ":status", "200", "sec-websocket-protocol", "chat")
				_ = p.do(func() error { return p.WriteData(f.StreamID, false, []byte("hello")) })
			}
		case *http2.DataFrame:
			_ = p.do(func() error { return p.WriteData(f.StreamID, f.StreamEnded(), f.Data()) })
		}
		return true
	})
}

func connect(path string) []string {
	return []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", path, ":authority", "h", "sec-websocket-version", "13"}
}

func TestExtendedConnectReachesAContainerThatSupportsIt(t *testing.T) {
	r := newRig(t, serveWebSocket(t, true))
	c := r.dial()
	id := c.open(false, connect("/chat")...)
	_ = c.data(id, false, " and back")
	until(t, "the echo", func() bool { g := c.of(id); return string(g.body) == "hello and back" })
	if g := c.of(id); g.status() != "200" || g.head["sec-websocket-protocol"] != "chat" || g.head["sec-websocket-accept"] != "" {
		t.Errorf("head %v", g.head)
	}
	until(t, "a tunnel", func() bool { return r.gate.Drain.Tunnels() == 1 })
	_ = c.data(id, true, "")
	if g := c.await(id); !g.ended || g.reset {
		t.Errorf("%+v", g)
	}
	if g := c.await(c.open(false, connect("/no")...)); g.status() != "403" {
		t.Errorf("head %v", g.head)
	}
	until(t, "no stream towards the container", func() (none bool) {
		r.on(func() { none = len(r.part.pool.conns[0].table.open) == 0 })
		return none
	})
}

func TestExtendedConnectWithoutContainerSupportFallsBackToUpgradeOrGets405(t *testing.T) {
	t.Run("the container speaks HTTP/2 only", func(t *testing.T) {
		r := newRig(t, serveWebSocket(t, false), func(o *options) { o.protocol = 2 })
		c := r.dial()
		if g := c.await(c.open(false, connect("/chat")...)); g.status() != "405" || g.head["k-gate-outcome"] != "method-not-allowed" {
			t.Errorf("head %v", g.head)
		}
		c.want(c.get("/"), "200", "no WebSocket")
	})
	t.Run("the container speaks HTTP/1.1 too", func(t *testing.T) {
		r := newRig(t, serveHTTP(t, true, true, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				return
			}
			conn, in, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
			_, _ = io.Copy(conn, in)
		}))
		c := r.dial()
		c.works()
		id := c.open(false, connect("/chat")...)
		_ = c.data(id, false, " and back")
		until(t, "the echo", func() bool { g := c.of(id); return string(g.body) == "hello and back" || g.over() })
		if g := c.of(id); g.status() != "200" || string(g.body) != "hello and back" {
			t.Errorf("head %v", g.head)
		}
		_ = c.conn.Close()
	})
}

// upgrade requests WebSocket over HTTP/1.1.
func (r *rig) upgrade(path string) (net.Conn, *bufio.Reader, *http.Response) {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return conn, in, res
}

func TestWebSocketOverHTTP1ReachesAnHTTP2ContainerAsExtendedConnect(t *testing.T) {
	r := newRig(t, serveWebSocket(t, true), func(o *options) { o.protocol = 2 })
	conn, in, res := r.upgrade("/chat")
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Connection") != "Upgrade" ||
		res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || res.Header.Get("Sec-WebSocket-Protocol") != "chat" {
		t.Fatalf("%v", res)
	}
	_, _ = io.WriteString(conn, " and back")
	b := make([]byte, len("hello and back"))
	if _, err := io.ReadFull(in, b); err != nil || string(b) != "hello and back" {
		t.Errorf("%q, %v", b, err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if _, _, res := r.upgrade("/no"); res.StatusCode != 403 {
		t.Errorf("%v", res)
	}
}

func TestWebSocketOverHTTP1ReachesAnHTTP2ContainerWithoutSupportAsAPlainRequest(t *testing.T) {
	r := newRig(t, serveWebSocket(t, false), func(o *options) { o.protocol = 2 })
	_, in, res := r.upgrade("/chat")
	b, err := io.ReadAll(io.LimitReader(in, int64(len("c\r\nno WebSocket"))))
	if res.StatusCode != 200 || err != nil {
		t.Errorf("%v %q %v", res, b, err)
	}
}
