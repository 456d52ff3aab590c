package http2

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// responseCase is a response of an h2c container. expect is
//
//	forward  200 with the body; the connection to the container is reused
//	reject   502; nothing of the response is forwarded
//	cut      the head may be forwarded, but the client sees the response as incomplete
//	end      as reject, and the connection to the container is closed
//
// In all cases clients get well-formed HTTP, and the next request is served.
type responseCase struct {
	name, expect string
	frames       func(id uint32) []byte
	body         string
	method       string // empty = GET
}

const okStatus = "\x88" // :status 200, from the static table

func text(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

func headed(flags h2.Flags, block string) func(uint32) []byte {
	return func(id uint32) []byte { return frame(h2.Headers, h2.FlagEndHeaders|flags, id, block) }
}

// withBody returns a head followed by frames.
func withBody(block string, frames func(id uint32) []byte) func(uint32) []byte {
	return func(id uint32) []byte { return concat(frame(h2.Headers, h2.FlagEndHeaders, id, block), frames(id)) }
}

func dataOf(pieces ...string) func(uint32) []byte {
	return func(id uint32) (b []byte) {
		for i, p := range pieces {
			flags := h2.Flags(0)
			if i == len(pieces)-1 {
				flags = h2.FlagEndStream
			}
			b = append(b, frame(h2.Data, flags, id, p)...)
		}
		return b
	}
}

func trailing(block string) func(uint32) []byte {
	return func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Headers, endAll, id, block))
	}
}

var responseCases = func() (cases []responseCase) {
	add := func(expect, name string, frames func(uint32) []byte, body string) {
		cases = append(cases, responseCase{name: name, expect: expect, frames: frames, body: body})
	}
	for _, s := range []string{"", "2", "20", "2000", "20x", " 200", "200 ", "abc", "099", "000", "-20", "+20", "2.0", "200 OK", "2\x000", "200\r\nx: y", "101"} {
		add("reject", fmt.Sprintf("status %q", s), headed(h2.FlagEndStream, text(":status", s)), "")
	}
	for _, block := range []string{
		"", text("x", "y"), okStatus + okStatus, okStatus + text(":status", "404"), text("x", "y") + okStatus, okStatus + text(":path", "/"), okStatus + text(":method", "GET"),
		okStatus + text(":foo", "x"), okStatus + text(":Status", "200"), okStatus + text("x", "y") + text(":status", "200"),
	} {
		add("reject", fmt.Sprintf("pseudo-fields %q", block), headed(h2.FlagEndStream, block), "")
	}
	for _, f := range [][2]string{
		{"connection", "close"}, {"connection", "keep-alive"}, {"keep-alive", "timeout=5"}, {"proxy-connection", "close"},
		{"transfer-encoding", "chunked"}, {"transfer-encoding", "gzip"}, {"upgrade", "websocket"}, {"te", "gzip"},
		{"Upper", "x"}, {"Content-Length", "3"}, {"Set-Cookie", "a=b"}, {"a b", "x"}, {"a:b", "x"}, {"", "x"}, {"a\r\nb", "x"}, {"a\x00", "x"}, {"\xff", "x"}, {"a ", "x"},
		{"x", "a\r\nset-cookie: evil"}, {"x", "a\rb"}, {"x", "a\nb"}, {"x", "a\x00b"}, {"x", " a"}, {"x", "a "}, {"x", "\ta"}, {"x", "a\x01b"}, {"x", "a\x7fb"},
		{"location", "/\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"}, {"set-cookie", "a=b\x00"},
	} {
		add("reject", fmt.Sprintf("field %q: %q", f[0], f[1]), withBody(okStatus+text(f[0], f[1]), dataOf("abc")), "")
	}
	for _, l := range []string{"3, 3", "+3", "-1", "0x3", "3 3", "3.0", "", " 3", "3x", "99999999999999999999", "3,3", "3;3"} {
		add("reject", fmt.Sprintf("length %q", l), withBody(okStatus+text("content-length", l), dataOf("abc")), "")
	}
	length := func(n string) string { return okStatus + text("content-length", n) }
	add("reject", "two lengths", withBody(length("3")+text("content-length", "4"), dataOf("abc")), "")
	add("cut", "a body longer than its length", withBody(length("2"), dataOf("abc")), "")
	add("cut", "a second frame beyond the length", withBody(length("4"), dataOf("ab", "cde")), "")
	add("cut", "a body shorter than its length", withBody(length("4"), dataOf("abc")), "")
	add("cut", "a length without a body", headed(h2.FlagEndStream, length("4")), "")
	add("cut", "trailers before the length is reached", withBody(length("4"), trailing(text("x", "y"))), "")
	add("forward", "a length", withBody(length("3"), dataOf("abc")), "abc")
	add("forward", "a length with a leading zero", withBody(length("03"), dataOf("abc")), "abc")
	add("forward", "no length", withBody(okStatus, dataOf("a", "", "bc")), "abc")
	add("forward", "a length of zero", headed(h2.FlagEndStream, length("0")), "")
	add("forward", "no body", headed(h2.FlagEndStream, okStatus), "")
	add("forward", "END_STREAM in an empty frame", withBody(okStatus, dataOf("abc", "")), "abc")
	add("forward", "a body that looks like a response", withBody(okStatus, dataOf("0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")), "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
	add("forward", "padding", withBody(okStatus, func(id uint32) []byte { return frame(h2.Data, h2.FlagEndStream|8, id, "\x02abczz") }), "abc")
	add("forward", "padding and a priority", func(id uint32) []byte {
		return frame(h2.Headers, endAll|0x28, id, "\x01"+u32(0)+"\x10"+okStatus+"z")
	}, "")
	add("forward", "CONTINUATION", func(id uint32) []byte {
		return concat(frame(h2.Headers, h2.FlagEndStream, id, ""), frame(h2.Continuation, h2.FlagEndHeaders, id, okStatus))
	}, "")
	add("forward", "unusual but valid values", headed(h2.FlagEndStream, okStatus+text("x", "")+text("y", "\xe4 \xff")+text("x", "a\tb")), "")
	add("forward", "trailers", withBody(okStatus, trailing(text("x", "y"))), "abc")
	add("forward", "trailers that are not forwarded", withBody(okStatus, trailing(text("content-length", "7")+text("host", "evil")+text("set-cookie", "a=b"))), "abc")
	for _, block := range []string{
		okStatus, text(":path", "/"), text("X", "y"), text("connection", "close"), text("transfer-encoding", "chunked"), text("x", "a\r\nb"), text("x", "a\x00"), text("a b", "c"), text("", "c"),
	} {
		add("cut", fmt.Sprintf("trailers %q", block), withBody(okStatus, trailing(block)), "")
	}
	add("cut", "trailers that do not end", withBody(okStatus, func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Headers, h2.FlagEndHeaders, id, text("x", "y")))
	}), "")
	add("cut", "a second head", withBody(okStatus, func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.Headers, endAll, id, okStatus+text("x", "y")))
	}), "")
	add("reject", "DATA first", dataOf("abc"), "")
	add("reject", "RST_STREAM first", func(id uint32) []byte { return frame(h2.RSTStream, 0, id, u32(2)) }, "")
	add("reject", "RST_STREAM with NO_ERROR first", func(id uint32) []byte { return frame(h2.RSTStream, 0, id, u32(0)) }, "")
	add("cut", "RST_STREAM in the middle", withBody(okStatus, func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.RSTStream, 0, id, u32(2)))
	}), "")
	add("cut", "RST_STREAM with NO_ERROR in the middle", withBody(okStatus, func(id uint32) []byte {
		return concat(frame(h2.Data, 0, id, "abc"), frame(h2.RSTStream, 0, id, u32(0)))
	}), "")
	interim := func(status string) []byte { return []byte(text(":status", status)) }
	add("forward", "an interim response", func(id uint32) []byte {
		return concat(frame(h2.Headers, h2.FlagEndHeaders, id, string(interim("103"))+text("link", "</x>")), headed(h2.FlagEndStream, okStatus)(id))
	}, "")
	add("reject", "an interim response with END_STREAM", headed(h2.FlagEndStream, string(interim("103"))), "")
	add("reject", "an interim response with DATA", func(id uint32) []byte {
		return concat(frame(h2.Headers, h2.FlagEndHeaders, id, string(interim("103"))), dataOf("abc")(id))
	}, "")
	add("reject", "an interim 101", func(id uint32) []byte {
		return concat(frame(h2.Headers, h2.FlagEndHeaders, id, string(interim("101"))), headed(h2.FlagEndStream, okStatus)(id))
	}, "")
	add("reject", "a connection field in an interim response", func(id uint32) []byte {
		return concat(frame(h2.Headers, h2.FlagEndHeaders, id, string(interim("103"))+text("connection", "x")), headed(h2.FlagEndStream, okStatus)(id))
	}, "")
	for _, status := range []string{"204", "304"} {
		add("cut", status+" with DATA", withBody(text(":status", status), dataOf("abc")), "")
	}
	cases = append(cases, responseCase{name: "DATA for HEAD", expect: "cut", frames: withBody(okStatus, dataOf("abc")), method: "HEAD"})
	cases = append(cases, responseCase{name: "a length for HEAD", expect: "forward", frames: headed(h2.FlagEndStream, length("42")), method: "HEAD"})
	// Connection errors.
	for name, frames := range map[string]func(id uint32) []byte{
		"PUSH_PROMISE":                      func(id uint32) []byte { return frame(h2.PushPromise, h2.FlagEndHeaders, id, u32(2)+getHead) },
		"HEADERS of a stream of the server": func(uint32) []byte { return frame(h2.Headers, endAll, 2, okStatus) },
		"HEADERS of an idle stream":         func(id uint32) []byte { return frame(h2.Headers, endAll, id+100, okStatus) },
		"HEADERS of stream 0":               func(uint32) []byte { return frame(h2.Headers, endAll, 0, okStatus) },
		"CONTINUATION first":                func(id uint32) []byte { return frame(h2.Continuation, endAll, id, okStatus) },
		"DATA of stream 0":                  func(uint32) []byte { return frame(h2.Data, 0, 0, "x") },
		"padding beyond the frame":          func(id uint32) []byte { return frame(h2.Headers, endAll|8, id, "\x7f"+okStatus) },
		"index 0":                           headed(h2.FlagEndStream, okStatus+"\x80"),
		"a size update at the end":          headed(h2.FlagEndStream, okStatus+"\x20"),
		"Huffman with EOS":                  headed(h2.FlagEndStream, okStatus+"\x00\x01x\x84\xff\xff\xff\xff"),
		"a window update of 0":              func(uint32) []byte { return frame(h2.WindowUpdate, 0, 0, u32(0)) },
		"a window beyond its bound":         func(uint32) []byte { return frame(h2.WindowUpdate, 0, 0, u32(1<<31-1)) },
		"SETTINGS of 5 bytes":               func(uint32) []byte { return frame(h2.Settings, 0, 0, "abcde") },
		"SETTINGS_ENABLE_PUSH of a server":  func(uint32) []byte { return frame(h2.Settings, 0, 0, "\x00\x02"+u32(1)) },
		"a frame that is too long":          func(id uint32) []byte { return frame(h2.Data, 0, id, strings.Repeat("x", 16<<10+1)) },
		"PING of 7 bytes":                   func(uint32) []byte { return frame(h2.Ping, 0, 0, "1234567") },
		"a response of HTTP/1.1":            func(uint32) []byte { return []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") },
		"GOAWAY below the stream":           func(uint32) []byte { return frame(h2.GoAway, 0, 0, u32(0)+u32(2)) },
	} {
		add("end", name, frames, "")
	}
	return cases
}()

func TestHostileResponsesNeverReachAClientAsCompleteResponses(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[responseCase]
	k := serveRaw(t, func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = framer.WriteSettings()
		for {
			f, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
				_ = framer.WriteSettingsAck()
			}
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				_ = framer.WritePing(true, p.Data)
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				works := headed(h2.FlagEndStream, okStatus)(h.StreamID)
				if h.PseudoValue("path") == "/hostile" {
					works = current.Load().frames(h.StreamID)
				}
				if _, err := conn.Write(works); err != nil {
					return
				}
			}
		}
	})
	r := newRig(t, k, func(o *options) { o.protocol = upstream.H2C })
	t.Logf("%d cases, clients of both protocols", len(responseCases))
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	over1 := &http.Client{Transport: tr, Timeout: testkit.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c := r.dial()
	for _, a := range responseCases {
		current.Store(&a)
		method := a.method
		if method == "" {
			method = "GET"
		}
		judge := func(t *testing.T, status int, whole bool, body string, fields string) {
			t.Helper()
			if strings.Contains(fields, "evil") || strings.ContainsAny(fields, "\r\x00") {
				t.Errorf("the client got %q", fields)
			}
			switch a.expect {
			case "forward":
				if status != 200 || !whole || body != a.body {
					t.Errorf("%d %q, whole %v, want 200 %q", status, body, whole, a.body)
				}
			case "reject", "end":
				if status != 502 && !(a.expect == "end" && status == 503) || !whole || strings.Contains(body, "abc") {
					t.Errorf("%d %q, whole %v, want 502", status, body, whole)
				}
			case "cut":
				if status != 502 && whole && body != "" || status == 200 && whole && method != "HEAD" {
					t.Errorf("%d %q, whole %v, want 502 or a cut", status, body, whole)
				}
			}
		}
		t.Run(a.name+"/HTTP/1.1", func(t *testing.T) {
			q, err := http.NewRequest(method, "http://"+r.addr+"/hostile", strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			res, err := over1.Do(q)
			if err != nil {
				if a.expect != "cut" {
					t.Errorf("%v", err)
				}
			} else {
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				judge(t, res.StatusCode, err == nil, string(body), fmt.Sprint(res.Header, res.Trailer))
			}
			if status, _ := r.get("/works"); status != 200 {
				t.Errorf("then %d", status)
			}
		})
		t.Run(a.name+"/h2c", func(t *testing.T) {
			c.t = t
			id := c.open(true, request(method, "/hostile")...)
			g := c.await(id)
			status := 0
			_, _ = fmt.Sscan(g.status(), &status)
			if c.over() {
				t.Fatalf("the client's connection ended: %v", c.goAways)
			}
			if g.head == nil {
				if a.expect != "cut" || !g.reset {
					t.Errorf("no head, reset %v %v", g.reset, g.code)
				}
			} else {
				judge(t, status, g.ended && !(g.reset && g.code != http2.ErrCodeNo), string(g.body), fmt.Sprint(g.head, g.trailers))
			}
			c.works()
		})
	}
}
