package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// All clients of the gate share its HTTP/2 connections to the container. The gate also
// applies the protocol and the limits that it has detected for the container to the
// requests of all clients. The tests in this file check that no client can disturb other
// clients through this shared state.

// h2Script is a container that exchanges HTTP/2 frames. If frame returns false, the
// connection is closed.
func h2Script(settings []http2.Setting, frame func(c *h2ScriptConn, f http2.Frame) bool) server {
	return raw(func(conn *net.TCPConn) {
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		c := &h2ScriptConn{Framer: http2.NewFramer(conn, conn)}
		c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		c.MaxHeaderListSize = 1 << 24
		c.encoder = hpack.NewEncoder(&c.block)
		if c.do(func() error { return c.WriteSettings(settings...) }) != nil {
			return
		}
		for {
			f, err := c.ReadFrame()
			if err != nil {
				return
			}
			switch s, ok := f.(*http2.SettingsFrame); {
			case ok && !s.IsAck():
				err = c.do(c.WriteSettingsAck)
			case !frame(c, f):
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				err = c.do(func() error { return c.WritePing(true, p.Data) })
			}
			if err != nil {
				return
			}
		}
	})
}

type h2ScriptConn struct {
	*http2.Framer
	mu      sync.Mutex
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func (c *h2ScriptConn) do(write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return write()
}

// h2ScriptStream is a request without a response.
type h2ScriptStream struct {
	conn *h2ScriptConn
	id   uint32
}

// respond sends a complete response with status 200.
func (c *h2ScriptConn) respond(id uint32, body string) {
	_ = c.do(func() error {
		c.block.Reset()
		_ = c.encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true}); err != nil {
			return err
		}
		return c.WriteData(id, true, []byte(body))
	})
}

// gateBefore starts a gate in front of a server in the test's process.
func gateBefore(t *testing.T, s server, settings ...string) *gate {
	t.Helper()
	a := newApp(t)
	a.listen(s)
	return startGate(t, &container{port: a.port}, settings...)
}

// Go's server closes the connection if trailers arrive on a closed stream (RFC 9113
// section 5.1.1).
func TestTrailersAfterAnEarlyResponseDoNotEndOtherRequests(t *testing.T) {
	t.Parallel()
	waiting := make(chan h2ScriptStream, 20)
	g := gateBefore(t, h2Script(nil, func(c *h2ScriptConn, f http2.Frame) bool {
		head, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			return true
		}
		switch head.PseudoValue("path") {
		case "/innocent":
			waiting <- h2ScriptStream{c, head.StreamID}
		case "/early":
			c.respond(head.StreamID, "early")
		default:
			return false // trailers arrived
		}
		return true
	}))
	client := h2Client(t, nil)
	var responses []<-chan h2Response
	for range 20 {
		responses = append(responses, h2Start(t, client, "http://"+g.addr+"/innocent"))
	}
	var opened []h2ScriptStream
	for range responses {
		opened = append(opened, <-waiting)
	}
	for i := range 20 {
		announced := []string{"Transfer-Encoding: chunked", "Trailer: X-Trailer"}[:1+i%2]
		c := dial(t, g)
		c.send(request("POST", "/early", announced...) + "1\r\nx\r\n0\r\nX-Trailer: late\r\n\r\n")
		if a := c.response("POST"); a.status != 200 && a.status != 502 {
			t.Errorf("%d for a request with trailers: want 200, or 502 if they ended its connection", a.status)
		}
		c.close()
	}
	for _, o := range opened {
		o.conn.respond(o.id, "served")
	}
	for _, a := range responses {
		(<-a).is(t, 200, "served")
	}
}

// hypercorn closes the connection if a head exceeds its SETTINGS_MAX_HEADER_LIST_SIZE.
func TestAHeadAboveTheContainersLimitGets431AndEndsNoOtherRequest(t *testing.T) {
	t.Parallel()
	const limit = 16 << 10
	waiting := make(chan h2ScriptStream, 20)
	g := gateBefore(t, h2Script([]http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: limit}}, func(c *h2ScriptConn, f http2.Frame) bool {
		head, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			return true
		}
		size := 0
		for _, field := range head.Fields {
			size += int(field.Size())
		}
		if head.PseudoValue("path") == "/innocent" {
			waiting <- h2ScriptStream{c, head.StreamID}
		} else {
			c.respond(head.StreamID, "small enough")
		}
		return size <= limit
	}))
	client := h2Client(t, nil)
	var responses []<-chan h2Response
	for range 20 {
		responses = append(responses, h2Post(t, client, "http://"+g.addr+"/innocent", "abc"))
	}
	var opened []h2ScriptStream
	for range responses {
		opened = append(opened, <-waiting)
	}
	large := "X-Large: " + strings.Repeat("x", limit)
	c := dial(t, g)
	c.send(request("GET", "/large", large))
	c.response("GET").is(431, "request head too large\n")
	if a := <-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/large", large); a.err != nil || a.status != 431 {
		t.Errorf("over HTTP/2: %d, %v: want 431", a.status, a.err)
	}
	(<-h2Start(t, client, "http://"+g.addr+"/small", "X-Large: "+strings.Repeat("x", limit/2))).is(t, 200, "small enough")
	for _, o := range opened {
		o.conn.respond(o.id, "served")
	}
	for _, a := range responses {
		(<-a).is(t, 200, "served")
	}
}

func TestAContainerThatClosesAFreshHTTP1ConnectionStillGetsWebSockets(t *testing.T) {
	t.Parallel()
	setProtocols := func(p *http.Protocols, enabled bool) { p.SetHTTP1(enabled); p.SetUnencryptedHTTP2(enabled) }
	g := gateBefore(t, httpServer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/close" && r.ProtoMajor == 1:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case r.URL.Path == "/close":
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/ws" && r.ProtoMajor == 1:
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, switching)
			_, _ = io.CopyN(conn, rw, 4)
		}
	}, setProtocols))
	for range 5 {
		c := dial(t, g)
		c.send(request("GET", "/close"))
		if a := c.response("GET"); a.status != 502 {
			t.Errorf("%d for a request that the container closes: want 502", a.status)
		}
		c.close()
		ws := dial(t, g)
		ws.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"))
		if head := parseHead(t, ws.head()).line; head != "HTTP/1.1 101 Switching Protocols" {
			t.Fatalf("upgrade: %q", head)
		}
		ws.send("echo")
		ws.expect("echo")
		ws.close()
	}
}

func TestARefusedRequestIsSentAtMostFourTimes(t *testing.T) {
	t.Parallel()
	const allowed = 4
	for _, x := range []struct {
		name  string
		serve func(sent chan<- string) server
	}{
		{"REFUSED_STREAM", func(sent chan<- string) server {
			return h2Script(nil, func(c *h2ScriptConn, f http2.Frame) bool {
				if head, ok := f.(*http2.MetaHeadersFrame); ok {
					sent <- head.PseudoValue("method")
					_ = c.do(func() error { return c.WriteRSTStream(head.StreamID, http2.ErrCodeRefusedStream) })
				}
				return true
			})
		}},
		{"each protocol with the other", func(sent chan<- string) server {
			return raw(func(conn *net.TCPConn) {
				defer conn.Close()
				head, err := readHead(conn)
				if err != nil {
					return
				}
				if strings.HasPrefix(head, "PRI ") {
					_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return
				}
				sent <- "POST"
				_, _ = io.WriteString(conn, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") // SETTINGS
			})
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			sent := make(chan string, 1000)
			g := gateBefore(t, x.serve(sent))
			a := <-h2Post(t, h2Client(t, nil), "http://"+g.addr+"/", "abc")
			if a.err != nil || a.status != 502 && a.status != 503 {
				t.Errorf("%d, %v: want 502 or 503", a.status, a.err)
			}
			if n := len(sent); n > allowed {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// The container resets the stream with CANCEL. Before the client's deadline, the gate
// translates this code to the gRPC status CANCELLED (1). After the deadline, the status
// is DEADLINE_EXCEEDED (4).
func TestAResetAfterTheGRPCTimeoutIsDeadlineExceeded(t *testing.T) {
	t.Parallel()
	g := gateBefore(t, h2Script(nil, func(c *h2ScriptConn, f http2.Frame) bool {
		if head, ok := f.(*http2.MetaHeadersFrame); ok {
			_ = c.do(func() error { return c.WriteRSTStream(head.StreamID, http2.ErrCodeCancel) })
		}
		return true
	}))
	for timeout, status := range map[string]string{"1n": "4", "100S": "1"} {
		a := <-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/call", "Content-Type: application/grpc", "Te: trailers", "grpc-timeout: "+timeout)
		if a.err != nil || a.header.Get("Grpc-Status") != status {
			t.Errorf("grpc-timeout %s: grpc-status %q, %v: want %s", timeout, a.header.Get("Grpc-Status"), a.err, status)
		}
	}
}
