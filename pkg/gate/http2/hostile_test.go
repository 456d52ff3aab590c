package http2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// hostileCase is a request of testdata/requests.txt.
type hostileCase struct {
	name, expect string
	fields       []string
	data         []string
	trailers     []string
	end          bool
	with         []string
}

func readCorpus(t *testing.T) (cases []hostileCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	var c *hostileCase
	var all []hostileCase
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || word == "#":
		case word == "==":
			all = append(all, hostileCase{name: rest})
			c = &all[len(all)-1]
		case word == "expect":
			c.expect = rest
		case word == "with":
			c.with = append(c.with, rest)
		case word == "data":
			c.data = append(c.data, rest)
		case word == "trailer":
			c.trailers = append(c.trailers, rest)
		case line == "end":
			c.end = true
		default:
			c.fields = append(c.fields, line)
		}
	}
	for i, c := range all {
		if len(c.with) == 0 {
			c.with = []string{""}
		}
		for j, v := range c.with {
			one := hostileCase{name: fmt.Sprintf("%s/%d", c.name, j+1), expect: c.expect, end: c.end}
			fill := strings.NewReplacer("{V}", v)
			token := strings.NewReplacer("{T}", fmt.Sprintf("token%dx%d", i, j))
			for _, f := range c.fields {
				one.fields = append(one.fields, splitField(expand(token.Replace(fill.Replace(f))))...)
			}
			for _, f := range c.trailers {
				one.trailers = append(one.trailers, splitField(expand(token.Replace(fill.Replace(f))))...)
			}
			for _, d := range c.data {
				one.data = append(one.data, expand(d))
			}
			cases = append(cases, one)
		}
	}
	return cases
}

// expand expands \xNN, \_ and {x N text}.
func expand(s string) string {
	if before, rest, ok := strings.Cut(s, "{x "); ok {
		count, rest, _ := strings.Cut(rest, " ")
		text, after, _ := strings.Cut(rest, "}")
		n, _ := strconv.Atoi(count)
		s = before + strings.Repeat(text, n) + after
	}
	var b []byte
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, `\_`):
			b, s = append(b, ' '), s[2:]
		case strings.HasPrefix(s, `\x`):
			n, _ := strconv.ParseUint(s[2:4], 16, 8)
			b, s = append(b, byte(n)), s[4:]
		default:
			b, s = append(b, s[0]), s[1:]
		}
	}
	return string(b)
}

// splitField splits at the first ": " that is not the colon of a pseudo-field.
func splitField(s string) []string {
	i := strings.Index(s[1:], ": ")
	if i < 0 {
		return []string{s, ""}
	}
	return []string{s[:i+1], s[i+3:]}
}

func (c *hostileCase) field(name string) string {
	for i := 0; i < len(c.fields); i += 2 {
		if c.fields[i] == name {
			return c.fields[i+1]
		}
	}
	return ""
}

// recorder is an HTTP/1.1 container that records all bytes and the requests that net/http
// parses from them.
type recorder struct {
	mu       sync.Mutex
	bytes    []byte
	requests []string
	garbage  []string
}

func (r *recorder) serve(conn net.Conn) {
	in := bufio.NewReader(io.TeeReader(conn, r))
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
				r.mu.Lock()
				r.garbage = append(r.garbage, err.Error())
				r.mu.Unlock()
			}
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // incomplete
		}
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.RequestURI+" "+string(body))
		r.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes = append(r.bytes, p...)
	return len(p), nil
}

// take returns everything recorded since the last call.
func (r *recorder) take() (raw []byte, requests, garbage []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, requests, garbage = r.bytes, r.requests, r.garbage
	r.bytes, r.requests, r.garbage = nil, nil, nil
	return raw, requests, garbage
}

func TestHostileRequestsAreRejectedOrForwardedUnambiguously(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) { runCorpus(t, new(recorder), upstream.HTTP1) })
	t.Run("h2c", func(t *testing.T) { runCorpus(t, new(frameRecorder), upstream.H2C) })
}

// recordingContainer records the bytes that it receives.
type recordingContainer interface {
	serve(net.Conn)
	take() (raw []byte, requests, garbage []string)
}

func runCorpus(t *testing.T, seen recordingContainer, protocol upstream.Protocol) {
	r := newRig(t, serveRaw(t, seen.serve), func(o *options) { o.protocol = protocol })
	cases := readCorpus(t)
	t.Logf("%d cases", len(cases))
	c := r.dial()
	for _, h := range cases {
		t.Run(h.name, func(t *testing.T) {
			c.t = t
			if c.over() {
				c = r.dial()
			}
			seen.take()
			id := c.open(len(h.data) == 0 && len(h.trailers) == 0 && !h.end, h.fields...)
			for i, d := range h.data {
				_ = c.data(id, h.end && i == len(h.data)-1, d)
			}
			if len(h.trailers) > 0 {
				_ = c.do(func() error {
					return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields(h.trailers), EndHeaders: true, EndStream: true})
				})
			}
			g := c.await(id)
			if c.over() {
				t.Errorf("the connection ended: %v", c.goAways)
				return
			}
			c.works() // reuses the connection to the container if it is still open
			raw, requests, garbage := seen.take()
			if n := len(requests); n > 0 && requests[n-1] == "GET /works " {
				requests = requests[:n-1]
			} else {
				t.Errorf("the following request arrived as %q", requests)
			}
			if len(garbage) > 0 {
				t.Errorf("the container could not parse %q", garbage)
			}
			if bytes.Count(raw, []byte("smuggled")) > 0 && h.expect != "forward" {
				t.Errorf("the container received %q", raw)
			}
			switch h.expect {
			case "forward":
				method := h.field(":method")
				path := h.field(":path")
				if protocol == upstream.H2C {
					path = encodeNonASCII(path)
				}
				want := method + " " + path + " " + strings.Join(h.data, "")
				if len(requests) != 1 || requests[0] != want || g.status() != "200" {
					t.Errorf("response %v, reset %v %v; the container received %q, want %q", g.head, g.reset, g.code, requests, want)
				}
			case "reject":
				if bytes.Contains(raw, []byte("token")) || len(requests) > 0 || protocol == upstream.HTTP1 && !bytes.HasPrefix(raw, []byte("GET /works")) {
					t.Errorf("the container received %q", raw)
				}
				if !rejected(g) {
					t.Errorf("response %v, reset %v %v", g.head, g.reset, g.code)
				}
			case "break":
				if len(requests) > 0 || !rejected(g) {
					t.Errorf("response %v, reset %v %v; the container received %q", g.head, g.reset, g.code, requests)
				}
			default:
				t.Errorf("expectation %q", h.expect)
			}
		})
	}
}

// rejected reports whether the gate treated the request as a fault of the client: with a
// 4xx, or by resetting the stream with PROTOCOL_ERROR or STREAM_CLOSED.
func rejected(g got) bool {
	return strings.HasPrefix(g.status(), "4") || g.head == nil && g.reset && (g.code == http2.ErrCodeProtocol || g.code == http2.ErrCodeStreamClosed)
}

// encodeNonASCII percent-encodes the bytes of a path that are not ASCII, as the gate does
// for HTTP/2 containers.
func encodeNonASCII(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
