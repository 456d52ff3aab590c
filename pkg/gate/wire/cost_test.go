package wire

import (
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// shape describes a generated head. The head consists of the text begin, many copies of
// the text unit, and the text end. In each copy, %d is replaced by the number of the
// copy. In begin and unit, %% stands for a percent sign.
type shape struct{ name, begin, unit, end string }

const getHead = "GET / HTTP/1.1\r\nHost: a\r\n"

var shapes = []shape{
	{"a long value", getHead + "X: ", "v", ""},
	{"many fields of 250 bytes", getHead, "X-%d: " + strings.Repeat("v", 240) + "\r\n", ""},
	{"many short fields", getHead, "a:\r\n", ""},
	{"many long names", getHead, strings.Repeat("n", 240) + "%d:\r\n", ""},
	{"options of Connection", getHead + "Connection: ", "a,", ""},
	{"different options of Connection", getHead + "Connection: ", "a%d,", ""},
	{"no options of Connection", getHead + "Connection: ", ",", ""},
	{"64 options of Connection and similar names",
		getHead + "Connection: " + longNames(64) + "\r\n", strings.Repeat("n", 240) + "%d: v\r\n", ""},
	{"lines of Connection", getHead, "Connection: a\r\n", ""},
	{"addresses in X-Forwarded-For", getHead + "X-Forwarded-For: ", "a,", ""},
	{"IPv6 addresses in X-Forwarded-For", getHead + "X-Forwarded-For: ", "::,", ""},
	{"quotes in X-Forwarded-For", getHead + "X-Forwarded-For: ", `"\`, ""},
	{"nothing in X-Forwarded-For", getHead + "X-Forwarded-For: ", ",", "x"},
	{"lines of X-Forwarded-For", getHead, "X-Forwarded-For: " + strings.Repeat("a,", 110) + "\r\n", ""},
	{"X-Forwarded-Host", getHead + "X-Forwarded-Host: ", `"`, ""},
	{"X-Forwarded-Proto", getHead + "X-Forwarded-Proto: ", `\`, ""},
	{"options of TE", getHead + "TE: ", "a,", ""},
	{"lines of TE", getHead, "TE: a\r\n", ""},
	{"codings", getHead + "Transfer-Encoding: ", "a,", ""},
	{"protocols", getHead + "Connection: upgrade\r\nUpgrade: ", "a,", ""},
	{"trailers", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: ", "a,", ""},
	{"lines of Trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n", "Trailer: " + strings.Repeat("a,", 110) + "\r\n", ""},
	{"trace context", getHead, "b3: a\r\n", ""},
	{"K-Original-Host without a value", getHead, "K-Original-Host:\r\n", ""},
	{"K-Original-Host", getHead + "K-Original-Host: ", "%%41", ""},
	{"a long host", "GET / HTTP/1.1\r\nHost: ", "%%41", ""},
	{"a literal host", "GET / HTTP/1.1\r\nHost: [::1%%25", "z", "]"},
	{"a long target", "GET /", "%%41", " HTTP/1.1\r\nHost: a"},
	{"a long target with percent signs apart", "GET /", "%%41" + strings.Repeat("x", 13), " HTTP/1.1\r\nHost: a"},
	{"a long target with percent signs further apart", "GET /", "%%41" + strings.Repeat("x", 17), " HTTP/1.1\r\nHost: a"},
	{"an absolute target", "GET http://a?", "%%41", " HTTP/1.1\r\nHost: a"},
	{"an authority", "GET http://", "%%41", "/ HTTP/1.1\r\nHost: a"},
	{"a long method", "", "G", " / HTTP/1.1\r\nHost: a"},
	{"K-Gate fields", getHead, "K-Gate-%d: v\r\n", ""},
}

func longNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("n", 240) + "x" + strconv.Itoa(i) + ",")
	}
	return strings.TrimSuffix(b.String(), ",")
}

// fill returns a head of at most size bytes and 4,000 lines.
func (s shape) fill(size int) []byte {
	b := []byte(strings.ReplaceAll(s.begin, "%%", "%"))
	lines := 0
	for i := 0; len(b) < size-len(s.unit)-len(s.end)-16 && lines < 4000; i++ {
		unit := strings.ReplaceAll(s.unit, "%%", "%")
		unit = strings.ReplaceAll(unit, "%d", strconv.Itoa(i))
		b = append(b, unit...)
		lines += strings.Count(unit, "\n")
	}
	if end := s.end; end != "" || !strings.HasSuffix(string(b), "\r\n") {
		b = append(append(b, end...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// costOf returns the shortest time of several attempts to parse and rewrite a head.
func costOf(head []byte, attempts int) time.Duration {
	least := time.Hour
	var out []byte
	for range attempts {
		r := new(Request)
		began := time.Now()
		if complete, err := r.Scan(head); complete && err == nil && r.Parse() == nil {
			out = r.AppendHead(out[:0], netip.MustParseAddr("192.0.2.1"), []byte("a"))
		}
		least = min(least, time.Since(began))
	}
	return least
}

// FuzzExpensiveHead searches for heads that are expensive to parse. It repeats its input,
// so that a superlinear cost shows.
func FuzzExpensiveHead(f *testing.F) {
	for _, s := range shapes {
		f.Add(s.begin, s.unit, s.end)
	}
	f.Fuzz(func(t *testing.T, begin, unit, end string) {
		if len(begin)+len(unit)+len(end) > fuzzLimit || unit == "" {
			return
		}
		head := shape{"", begin, unit, end}.fill(256 << 10)
		if cost := costOf(head, 1); cost > maxCost/4 {
			if cost = costOf(head, 9); cost > maxCost/4 {
				t.Errorf("%v for a head of %d bytes", cost, len(head))
			}
		}
	})
}

// maxCost is the time limit for parsing a head of 1 MiB. The goal is 5 ms; the limit
// allows for slow machines and the race detector.
var maxCost = func() time.Duration {
	if raceDetector {
		return time.Second
	}
	return 50 * time.Millisecond
}()

func BenchmarkExpensiveHeads(b *testing.B) {
	for _, s := range shapes {
		head := s.fill(1 << 20)
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(head)))
			for b.Loop() {
				costOf(head, 1)
			}
		})
	}
}

// A buffer that grows line by line would leave several times the head's size as garbage.
func TestALongHeadIsWrittenWithoutReallocation(t *testing.T) {
	request := shape{"", getHead, "X-Forwarded-For: " + strings.Repeat("a,", 110) + "\r\n", ""}.fill(1 << 20)
	response := shape{"", "HTTP/1.1 200 OK\r\n", "K-Gate-X: v\r\nX-%d: " + strings.Repeat("v", 440) + "\r\n", ""}.fill(1 << 20)
	req, res := new(Request), new(Response)
	readRequest(req, request)
	readResponse(res, response, []byte("GET"))
	for _, c := range []struct {
		name  string
		most  int
		write func() []byte
	}{
		{"request", len(request) * 5 / 2, func() []byte { return req.AppendHead(nil, benchPeer, benchHost) }},
		{"response", len(response) * 5 / 2, func() []byte { return res.AppendHead(nil, Framing{}, benchDate) }},
		// This bound is higher, because X-Forwarded-For is allocated twice: first as an
		// HTTP/1 line, and then in the encoded block.
		{"request over HTTP/2", len(request) * 9 / 2, func() []byte { return req.AppendHTTP2(nil, new(h2.Encoder), benchPeer, benchHost, "http") }},
		{"response over HTTP/2", len(response) * 5 / 2, func() []byte { return res.AppendHTTP2(nil, new(h2.Encoder), Framing{}, nil) }},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.write()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(c.most) {
			t.Errorf("%s: %d bytes allocated, at most %d", c.name, n, c.most)
		}
	}
}
