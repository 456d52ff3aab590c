package origin

import (
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

func TestTheBenchmarkOriginParsesRequests(t *testing.T) {
	for _, c := range []struct {
		head string
		want request
	}{
		{"GET / HTTP/1.1\r\nHost: x\r\n", request{route: routeRoot}},
		{"GET / HTTP/1.0\r\n", request{route: routeRoot, close: true}},
		{"GET / HTTP/1.1\r\nconnection: x, Close\r\n", request{route: routeRoot, close: true}},
		{"GET /?delay=3ms HTTP/1.1\r\n", request{route: routeRoot, delay: 3 * time.Millisecond}},
		{"GET /bytes/123 HTTP/1.1\r\n", request{route: routeBytes, size: 123}},
		{"POST /upload HTTP/1.1\r\ncontent-length: 9\r\n", request{route: routeRoot, body: wire.Body{Remaining: 9}}},
		{"POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", request{route: routeRoot, body: wire.Body{Chunked: true}}},
		{"GET /events?every=2ms HTTP/1.1\r\n", request{route: routeEvents, every: 2 * time.Millisecond}},
		{"GET /websocket HTTP/1.1\r\nSec-WebSocket-Key: abc \r\n", request{route: routeWebSocket, key: "abc"}},
		{"GET /else HTTP/1.1\r\n", request{}},
	} {
		if got, ok := parseRequest([]byte(c.head)); !ok || got != c.want {
			t.Errorf("%q: %+v, %v", c.head, got, ok)
		}
	}
	for _, head := range []string{
		"GET\r\n", "GET /\r\n", "GET /bytes/x HTTP/1.1\r\n", "GET /?delay=-1s HTTP/1.1\r\n", "GET /?delay=1 HTTP/1.1\r\n", "GET /?slots=x HTTP/1.1\r\n", "GET /?spread=2 HTTP/1.1\r\n", "GET /events?every=0s HTTP/1.1\r\n", "GET / HTTP/1.1\r\nno colon\r\n",
		"POST / HTTP/1.1\r\nContent-Length: -1\r\n",
	} {
		if got, ok := parseRequest([]byte(head)); ok {
			t.Errorf("%q was taken as %+v", head, got)
		}
	}
}

func TestAnEventIsOneChunkWithItsTimeStamp(t *testing.T) {
	if got := string(appendEvent(nil, 12345)); got != "d\r\ndata: 12345\n\n\r\n" {
		t.Fatalf("got %q", got)
	}
}

func TestTheAcceptKeyMatchesTheExampleOfRFC6455(t *testing.T) {
	if got := acceptKey("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("got %q", got)
	}
}

func TestASpecWithoutPortsIsRejected(t *testing.T) {
	if err := Main(strings.NewReader("{}\n"), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "ports is 0") {
		t.Fatalf("got %v", err)
	}
}
