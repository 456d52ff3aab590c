package wire

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// benchRequests has two request heads. A browser sends the first one, which has 12
// fields. A program such as curl sends the second one, which has only 3 fields.
var benchRequests = []struct{ name, head string }{
	{"browser", "GET /items/17?sort=name HTTP/1.1\r\n" + chromium + "\r\n"},
	{"small", "GET /items/17 HTTP/1.1\r\nHost: app.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"},
}

const benchResponse = "HTTP/1.1 200 OK\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nServer: gunicorn\r\nContent-Type: application/json\r\n" +
	"Cache-Control: private, max-age=0\r\nVary: Accept-Encoding\r\nETag: W/\"5d-QWxhZGRpbg\"\r\nConnection: keep-alive\r\nContent-Length: 93\r\n\r\n"

var (
	benchPeer = netip.MustParseAddr("203.0.113.9")
	benchHost = []byte(fallbackHost)
	benchDate = []byte("Tue, 15 Nov 1994 08:12:31 GMT")
)

func TestTheBrowserRequestOfTheBenchmarksHasTwelveFields(t *testing.T) {
	wantSame(t, "fields", strings.Count(benchRequests[0].head, "\r\n")-2, 12)
}

func readRequest(r *Request, head []byte) {
	r.Reset()
	if complete, err := r.Scan(head); !complete || err != nil {
		panic("BUG: the head is not complete")
	}
	if err := r.Parse(); err != nil {
		panic(err)
	}
}

func readResponse(r *Response, head []byte, method []byte) {
	r.Reset()
	if complete, err := r.Scan(head); !complete || err != nil {
		panic("BUG: the head is not complete")
	}
	if err := r.Parse(method); err != nil {
		panic(err)
	}
}

func BenchmarkRequestHead(b *testing.B) {
	for _, c := range benchRequests {
		b.Run(c.name, func(b *testing.B) {
			head, r := []byte(c.head), new(Request)
			b.SetBytes(int64(len(head)))
			b.ReportAllocs()
			for b.Loop() {
				readRequest(r, head)
			}
		})
	}
}

func BenchmarkRewrite(b *testing.B) {
	for _, c := range benchRequests {
		b.Run(c.name, func(b *testing.B) {
			r, out := new(Request), make([]byte, 0, 4<<10)
			readRequest(r, []byte(c.head))
			b.SetBytes(int64(len(c.head)))
			b.ReportAllocs()
			for b.Loop() {
				out = r.AppendHead(out[:0], benchPeer, benchHost)
			}
		})
	}
}

func BenchmarkRewriteToHTTP2(b *testing.B) {
	for _, c := range benchRequests {
		b.Run(c.name, func(b *testing.B) {
			r, out, e := new(Request), make([]byte, 0, 4<<10), new(h2.Encoder)
			readRequest(r, []byte(c.head))
			b.ReportAllocs()
			for b.Loop() {
				out = r.AppendHTTP2(out[:0], e, benchPeer, benchHost, "http")
			}
		})
	}
	b.Run("response", func(b *testing.B) {
		r, out, e := new(Response), make([]byte, 0, 4<<10), new(h2.Encoder)
		readResponse(r, []byte(benchResponse), []byte("GET"))
		b.ReportAllocs()
		for b.Loop() {
			out = r.AppendHTTP2(out[:0], e, Framing{}, benchDate)
		}
	})
}

func BenchmarkResponseHead(b *testing.B) {
	head, method, r := []byte(benchResponse), []byte("GET"), new(Response)
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(head)))
		b.ReportAllocs()
		for b.Loop() {
			readResponse(r, head, method)
		}
	})
	b.Run("rewrite", func(b *testing.B) {
		readResponse(r, head, method)
		out := make([]byte, 0, 4<<10)
		b.SetBytes(int64(len(head)))
		b.ReportAllocs()
		for b.Loop() {
			out = r.AppendHead(out[:0], Framing{}, benchDate)
		}
	})
}

func BenchmarkChunked(b *testing.B) {
	for _, c := range []struct {
		name   string
		chunk  string
		number int
	}{
		{"16KiB", "4000\r\n" + strings.Repeat("x", 16<<10) + "\r\n", 4},
		{"100B", "64\r\n" + strings.Repeat("x", 100) + "\r\n", 600},
		{"1B", "1\r\nx\r\n", 10000},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := []byte(strings.Repeat(c.chunk, c.number) + "0\r\n\r\n")
			var d Decoder
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				readBody(&d, in)
			}
		})
	}
}

func readBody(d *Decoder, in []byte) {
	d.Begin(BodyChunked, 0)
	for r := 0; !d.Ended; {
		_, n, err := d.Next(in[r:])
		if err != nil || n == 0 {
			panic("BUG: the body is not complete")
		}
		r += n
	}
}

// BenchmarkTrickle reads a long field that arrives one byte at a time.
func BenchmarkTrickle(b *testing.B) {
	in := []byte(padded(32 << 10))
	b.SetBytes(int64(len(in)))
	h := new(Head)
	for b.Loop() {
		h.reset()
		for n := range in {
			if _, err := h.Scan(in[:n+1]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestReadingAndRewritingHeadsAllocatesNothing(t *testing.T) {
	heads := []string{benchRequests[0].head, benchRequests[1].head,
		"GET / HTTP/1.0\r\n\r\n",
		"GET http://b/p HTTP/1.1\r\nHost: a\r\nK-Original-Host: c\r\nX-Forwarded-For: 1\r\nX-Forwarded-For: 2\r\nForwarded: for=1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: X-Sum\r\nExpect: 100-continue\r\nConnection: x-a, x-b\r\nX-A: 1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0012\r\nUser-Agent: x\r\nK-Proxy-Request: activator\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	}
	r, out, e := new(Request), make([]byte, 0, 4<<10), new(h2.Encoder)
	for _, h := range heads {
		head := []byte(h)
		if n := testing.AllocsPerRun(100, func() {
			readRequest(r, head)
			out = r.AppendHead(out[:0], benchPeer, benchHost)
			out = r.AppendHTTP2(out[:0], e, benchPeer, benchHost, "http")
		}); n != 0 {
			t.Errorf("%.0f allocations for %q", n, h)
		}
	}
}

func TestReadingAndRewritingResponsesAllocatesNothing(t *testing.T) {
	r, out, e, method := new(Response), make([]byte, 0, 4<<10), new(h2.Encoder), []byte("GET")
	for _, h := range []string{
		benchResponse,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close, x\r\nK-Gate-X: y\r\n\r\n",
		"HTTP/1.0 204\r\nContent-Length: 5\r\n\r\n",
	} {
		head := []byte(h)
		if n := testing.AllocsPerRun(100, func() {
			readResponse(r, head, method)
			out = r.AppendHead(out[:0], Framing{Chunked: r.Body == BodyChunked, Close: true}, benchDate)
			out = r.AppendHTTP2(out[:0], e, Framing{}, benchDate)
		}); n != 0 {
			t.Errorf("%.0f allocations for %q", n, h)
		}
	}
}

func TestReadingChunksAllocatesNothing(t *testing.T) {
	in := []byte("5;a\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")
	var d Decoder
	if n := testing.AllocsPerRun(100, func() { readBody(&d, in) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
