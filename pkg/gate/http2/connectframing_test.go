package http2

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// heads lists the request heads that a container received, in order.
type heads struct {
	mu  sync.Mutex
	all []string
}

func (h *heads) add(head string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, head)
}

func (h *heads) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, "\n")
}

// serveHeads is an HTTP/1.1 container that responds to each head at once, does not
// read bodies, and keeps the connection open.
func serveHeads(t *testing.T, respond func(head string) string) (*container, *heads) {
	seen := &heads{}
	return serveRaw(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			var head strings.Builder
			for !strings.HasSuffix(head.String(), "\r\n\r\n") {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				head.WriteString(line)
			}
			seen.add(head.String())
			if _, err := io.WriteString(conn, respond(head.String())); err != nil {
				return
			}
		}
	}), seen
}

// declineUpgrade responds to an upgrade with 403 and to any other request with 200.
func declineUpgrade(head string) string {
	if strings.Contains(head, "Upgrade") {
		return "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	}
	return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
}

// serveHeadsOverHTTP2 is an HTTP/2 container that declines extended CONNECT.
func serveHeadsOverHTTP2(t *testing.T) (*container, *heads) {
	seen := &heads{}
	return serveFrames(t, []http2.Setting{{ID: http2.SettingEnableConnectProtocol, Val: 1}}, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok {
			seen.add(fmt.Sprint(f.Fields))
			if field(f, ":method") == "CONNECT" {
				p.head(f.StreamID, true, ":status", "403")
			} else {
				p.respond(f.StreamID, "ok")
			}
		}
		return true
	}), seen
}

// connectContainers are containers that decline WebSocket.
var connectContainers = []struct {
	name     string
	protocol upstream.Protocol
	serve    func(t *testing.T) (*container, *heads)
}{
	{"over HTTP/1.1", upstream.HTTP1, func(t *testing.T) (*container, *heads) { return serveHeads(t, declineUpgrade) }},
	{"over h2c", upstream.H2C, serveHeadsOverHTTP2},
}

func TestExtendedConnectWithAFramingFieldIsRejected(t *testing.T) {
	for _, up := range connectContainers {
		for _, c := range []struct {
			name   string
			end    bool
			fields []string
		}{
			{"a length of 0", false, []string{"content-length", "0"}},
			{"a length of 0 and END_STREAM", true, []string{"content-length", "0"}},
			{"a length", false, []string{"content-length", "5"}},
			{"a length and END_STREAM", true, []string{"content-length", "5"}},
			{"a length with leading zeros", false, []string{"content-length", "020"}},
			{"a length of zeros", false, []string{"content-length", "00"}},
			{"a length twice", false, []string{"content-length", "5", "content-length", "5"}},
			{"two lengths", false, []string{"content-length", "5", "content-length", "6"}},
			{"a list of lengths", false, []string{"content-length", "5, 5"}},
			{"a length with a sign", false, []string{"content-length", "+5"}},
			{"a very large length", false, []string{"content-length", "9223372036854775807"}},
			{"an expectation", false, []string{"expect", "100-continue"}},
			{"an expectation and END_STREAM", true, []string{"expect", "100-continue"}},
			{"an unknown expectation", false, []string{"expect", "a"}},
			{"an empty expectation", false, []string{"expect", ""}},
			{"an expectation and a length", false, []string{"expect", "100-continue", "content-length", "40"}},
			{"a transfer coding", false, []string{"transfer-encoding", "chunked"}},
			{"a transfer coding and a length", false, []string{"transfer-encoding", "chunked", "content-length", "5"}},
			{"TE and a length", false, []string{"te", "trailers", "content-length", "5"}},
			{"a length after a Trailer field", false, []string{"trailer", "content-length", "content-length", "5"}},
		} {
			t.Run(c.name+" "+up.name, func(t *testing.T) {
				k, seen := up.serve(t)
				r := newRig(t, k, func(o *options) { o.protocol = up.protocol })
				bad := r.dial()
				id := bad.open(c.end, append(connect("/smuggle"), c.fields...)...)
				g := bad.await(id)
				switch {
				case g.reset && g.head == nil && g.code == http2.ErrCodeProtocol:
				case g.status() == "400", g.status() == "417" && c.fields[0] == "expect":
				default:
					t.Errorf("%+v", g)
				}
				good := r.dial()
				good.want(good.get("/innocent"), "200", "ok")
				if s := seen.String(); strings.Contains(s, "smuggle") || strings.Count(s, "innocent") != 1 {
					t.Errorf("the container got %s", s)
				}
			})
		}
	}
}

func TestAForwardedExtendedConnectHasNoFramingFields(t *testing.T) {
	for _, up := range connectContainers {
		for _, fields := range [][]string{nil, {"te", "trailers"}, {"trailer", "content-length, expect"}, {"x-content-length", "5"}} {
			for _, end := range []bool{false, true} {
				t.Run(fmt.Sprint(fields, end, " ", up.name), func(t *testing.T) {
					k, seen := up.serve(t)
					r := newRig(t, k, func(o *options) { o.protocol = up.protocol })
					c := r.dial()
					if g := c.await(c.open(end, append(connect("/chat"), fields...)...)); g.status() != "403" {
						t.Errorf("%+v", g)
					}
					s := strings.ToLower(strings.ReplaceAll(seen.String(), "x-content-length", ""))
					for _, name := range []string{"content-length", "transfer-encoding", "expect"} {
						if strings.Contains(s, name) {
							t.Errorf("the container got %s", s)
						}
					}
					c.want(c.get("/"), "200", "ok")
					if n := k.conns.Load(); n != 1 {
						t.Errorf("%d connections: the first one should have been reused", n)
					}
				})
			}
		}
	}
}

func TestAnUpgradeOverHTTP1WithABodyDoesNotBecomeExtendedConnect(t *testing.T) {
	for _, c := range []struct{ name, fields, method, length string }{
		{"a body", "Content-Length: 5\r\n", "GET", "5"},
		{"a chunked body", "Transfer-Encoding: chunked\r\n", "GET", ""},
		{"a length of 0", "Content-Length: 00\r\n", "CONNECT", ""},
		{"an expectation", "Expect: 100-continue\r\n", "CONNECT", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			type head struct{ method, length, expect string }
			seen := make(chan head, 1)
			k := serveFrames(t, []http2.Setting{{ID: http2.SettingEnableConnectProtocol, Val: 1}}, func(p *peer, f http2.Frame) bool {
				if f, ok := f.(*http2.MetaHeadersFrame); ok {
					seen <- head{field(f, ":method"), field(f, "content-length"), field(f, "expect")}
					p.head(f.StreamID, true, ":status", "403")
				}
				return true
			})
			r := newRig(t, k, func(o *options) { o.protocol = 2 })
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+c.fields+"\r\n")
			if got, want := testkit.Receive(t, "a head", seen), (head{c.method, c.length, ""}); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// RFC 9110 section 9.3.6.
func TestA2xxThatOpensATunnelHasNoFramingFields(t *testing.T) {
	over2 := func(status string) func(t *testing.T) *container {
		return func(t *testing.T) *container {
			return serveFrames(t, []http2.Setting{{ID: http2.SettingEnableConnectProtocol, Val: 1}}, func(p *peer, f http2.Frame) bool {
				switch f := f.(type) {
				case *http2.MetaHeadersFrame:
					p.head(f.StreamID, false, ":status", status, "content-length", "2", "sec-websocket-protocol", "chat")
					_ = p.do(func() error { return p.WriteData(f.StreamID, false, []byte("hello")) })
				case *http2.DataFrame:
					_ = p.do(func() error { return p.WriteData(f.StreamID, f.StreamEnded(), f.Data()) })
				}
				return true
			})
		}
	}
	over1 := func(fields string) func(t *testing.T) *container {
		return func(t *testing.T) *container {
			k, _ := serveHeads(t, func(string) string {
				return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + fields + "\r\nhello"
			})
			return k
		}
	}
	for _, c := range []struct {
		name     string
		protocol upstream.Protocol
		serve    func(t *testing.T) *container
	}{
		{"200 of HTTP/2", 2, over2("200")},
		{"204 of HTTP/2", 2, over2("204")},
		{"101 of HTTP/1.1 with a length", 1, over1("Content-Length: 2\r\n")},
		{"101 of HTTP/1.1 with a coding", 1, over1("Transfer-Encoding: chunked\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.serve(t), func(o *options) { o.protocol = c.protocol })
			client := r.dial()
			id := client.open(false, connect("/chat")...)
			until(t, "the greeting", func() bool { g := client.of(id); return string(g.body) == "hello" || g.over() })
			g := client.of(id)
			for _, name := range []string{"content-length", "transfer-encoding", "expect"} {
				if v, ok := g.head[name]; ok {
					t.Errorf("%s: %s", name, v)
				}
			}
			if g.over() || !strings.HasPrefix(g.status(), "20") || string(g.body) != "hello" {
				t.Errorf("%+v", g)
			}
			_, _, res := r.upgrade("/chat")
			if res.StatusCode != 101 || len(res.TransferEncoding) > 0 || res.Header.Get("Content-Length") != "" || res.ContentLength > 0 {
				t.Errorf("%v", res)
			}
			_ = client.conn.Close()
		})
	}
}

// A container that responds to an HTTP/1.1 upgrade with a 2xx declines it. The gate must
// not forward that 2xx to an HTTP/2 client, because it would open the tunnel (RFC 8441
// section 5).
func TestA2xxFromAnHTTP1ContainerDoesNotOpenATunnel(t *testing.T) {
	for _, status := range []string{"200 OK", "201 Created", "204 No Content", "299 x"} {
		t.Run(status, func(t *testing.T) {
			k, _ := serveHeads(t, func(head string) string {
				if strings.Contains(head, "Upgrade") {
					return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n"
				}
				return declineUpgrade(head)
			})
			r := newRig(t, k, func(o *options) { o.protocol = upstream.HTTP1 })
			c := r.dial()
			if g := c.await(c.open(false, connect("/chat")...)); g.status() != "502" || g.head["k-gate-outcome"] != "upstream-malformed" {
				t.Errorf("%+v", g)
			}
			c.want(c.get("/"), "200", "ok")
			if n := k.conns.Load(); n != 2 {
				t.Errorf("%d connections to the container, want a new one for the next request", n)
			}
			if _, _, res := r.upgrade("/chat"); res.Status != status { // an HTTP/1.1 client may get this response
				t.Errorf("%v", res)
			}
		})
	}
}

// RFC 9113 section 8.5.
func TestTrailersInATunnelAreAStreamError(t *testing.T) {
	var resets heads
	k := serveFrames(t, []http2.Setting{{ID: http2.SettingEnableConnectProtocol, Val: 1}}, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if field(f, ":method") != "CONNECT" {
				t.Errorf("trailers in a tunnel to the container: %v", f.Fields)
				return true
			}
			p.head(f.StreamID, false, ":status", "200")
			if field(f, ":path") == "/trailers" {
				p.head(f.StreamID, true, "x-sum", "1")
			}
		case *http2.RSTStreamFrame:
			resets.add(f.ErrCode.String())
		}
		return true
	})
	r := newRig(t, k, func(o *options) { o.protocol = 2 })
	c := r.dial()
	id := c.open(false, connect("/chat")...)
	until(t, "a tunnel", func() bool { g := c.of(id); return g.status() == "200" })
	_ = c.do(func() error {
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields([]string{"x-sum", "1"}), EndHeaders: true, EndStream: true})
	})
	if g := c.await(id); !g.reset || g.code != http2.ErrCodeProtocol {
		t.Errorf("%+v", g)
	}
	if g := c.await(c.open(false, connect("/trailers")...)); !g.reset || g.trailers != nil {
		t.Errorf("%+v", g)
	}
	until(t, "RST_STREAM towards the container", func() bool { return strings.Contains(resets.String(), "PROTOCOL_ERROR") })
}
