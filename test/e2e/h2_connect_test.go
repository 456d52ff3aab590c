package e2e

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Connect sends an extended CONNECT for a WebSocket with these fields, without
// END_STREAM. await returns the status of the response, or "reset" and the code of
// RST_STREAM.
func h2Connect(t *testing.T, g *gate, fields ...string) (await func() string) {
	t.Helper()
	conn, err := net.Dial("tcp", g.addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(testTimeout)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must(t, framer.WriteSettings())
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields = append([]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "gate.test",
		"sec-websocket-version", "13"}, fields...)
	for i := 0; i < len(fields); i += 2 {
		must(t, encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	must(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}))
	return func() string {
		t.Helper()
		for {
			f, err := framer.ReadFrame()
			must(t, err)
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				return f.PseudoValue("status")
			case *http2.RSTStreamFrame:
				return "reset " + f.ErrCode.String()
			}
		}
	}
}

func TestExtendedConnectWithABodyIsRejectedAndTheNextRequestIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_PROTOCOL=http1")
	for _, fields := range [][]string{
		{"content-length", "0"}, {"content-length", "40"}, {"content-length", "020"}, {"content-length", "40", "content-length", "40"},
		{"expect", "100-continue"}, {"expect", "100-continue", "content-length", "40"}, {"te", "trailers", "content-length", "40"},
	} {
		if status := h2Connect(t, g, fields...)(); status != "400" && status != "reset PROTOCOL_ERROR" {
			t.Errorf("%q: %s", fields, status)
		}
		c := dial(t, g)
		c.send(request("GET", "/innocent"))
		p := k.accept()
		if head := p.head(); !strings.HasPrefix(head, "GET /innocent HTTP/1.1\r\n") {
			t.Fatalf("the container got %q", head)
		}
		p.send(okClose)
		p.close()
		c.response("GET").is(200, "ok")
		c.close()
	}
}

func TestExtendedConnectGets502IfA2xxDeclinesTheUpgrade(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "UPSTREAM_PROTOCOL=http1")
	for _, x := range []struct{ response, status string }{
		{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "502"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "502"},
		{"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "403"},
	} {
		await := h2Connect(t, g)
		p := k.accept()
		parseHead(t, p.head()).lacks("Content-Length", "Transfer-Encoding", "Expect")
		p.send(x.response)
		if status := await(); status != x.status {
			t.Errorf("%q becomes %s, want %s", x.response, status, x.status)
		}
		p.awaitClose()
	}
}
