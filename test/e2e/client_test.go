package e2e

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// client is a raw connection to the gate with a time limit on each wait.
type client struct {
	*end
	net *net.TCPConn
}

func dial(t *testing.T, g *gate) *client {
	t.Helper()
	return dialAddr(t, g.addr)
}

func dialAddr(t *testing.T, addr string) *client {
	t.Helper()
	c, err := tryDial(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(t *testing.T, addr string) (*client, error) {
	nc, err := net.DialTimeout("tcp", addr, testTimeout)
	if err != nil {
		return nil, err
	}
	if err := nc.SetDeadline(time.Now().Add(4 * testTimeout)); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &client{net: nc.(*net.TCPConn)}
	c.end = newEnd(t, "client", bounded{c.net})
	return c, nil
}

// bounded limits each read and write to testTimeout.
type bounded struct{ *net.TCPConn }

func (b bounded) Read(p []byte) (int, error) {
	if err := b.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		return 0, err
	}
	return b.TCPConn.Read(p)
}

func (b bounded) Write(p []byte) (int, error) {
	if err := b.SetWriteDeadline(time.Now().Add(testTimeout)); err != nil {
		return 0, err
	}
	return b.TCPConn.Write(p)
}

func (c *client) close()      { c.t.Helper(); must(c.t, c.net.Close()) }
func (c *client) closeWrite() { c.t.Helper(); must(c.t, c.net.CloseWrite()) }

func (c *client) abort() {
	c.t.Helper()
	must(c.t, c.net.SetLinger(0))
	must(c.t, c.net.Close())
}

// pending reports, without waiting, whether bytes or the end of the connection have
// arrived.
func (c *client) pending() bool {
	c.t.Helper()
	if c.r.Buffered() > 0 {
		return true
	}
	raw, err := c.net.SyscallConn()
	must(c.t, err)
	var one [1]byte
	var peekErr error
	must(c.t, raw.Control(func(fd uintptr) {
		_, _, peekErr = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}))
	return !errors.Is(peekErr, unix.EAGAIN)
}

// response reads the response to a request with this method.
func (c *client) response(method string) response {
	c.t.Helper()
	a := parseHead(c.t, c.head())
	switch {
	case a.status < 200 || a.status == 204 || a.status == 304 || method == "HEAD":
	case a.has("Transfer-Encoding"):
		a.body, a.trailers = c.chunked()
	case a.has("Content-Length"):
		n, err := strconv.Atoi(a.get("Content-Length"))
		if err != nil {
			c.t.Fatalf("response with Content-Length %q", a.get("Content-Length"))
		}
		a.body = c.exactly(n)
	default:
		body, err := c.readAll()
		if err != nil {
			c.t.Fatalf("a body delimited by close was truncated: %v after %s", err, shorten(body))
		}
		a.body = body
	}
	return a
}

func (c *client) get(path string, fields ...string) response {
	c.t.Helper()
	c.send(request("GET", path, fields...))
	return c.response("GET")
}

// request returns a head with Host and these field lines.
func request(method, target string, fields ...string) string {
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: gate.test"}, fields...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

type response struct {
	t              *testing.T
	head, line     string
	status         int
	fields         [][2]string
	body, trailers string
}

// parseHead parses a request or response head strictly.
func parseHead(t *testing.T, head string) response {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	a := response{t: t, head: head, line: lines[0]}
	for _, l := range lines[1:] {
		name, value, ok := strings.Cut(l, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			t.Fatalf("malformed field line %q in %s", l, shorten(head))
		}
		a.fields = append(a.fields, [2]string{name, strings.Trim(value, " \t")})
	}
	if rest, ok := strings.CutPrefix(a.line, "HTTP/1.1 "); ok {
		a.status = statusOf(t, rest)
	} else if rest, ok := strings.CutPrefix(a.line, "HTTP/1.0 "); ok {
		a.status = statusOf(t, rest)
	}
	return a
}

func statusOf(t *testing.T, rest string) int {
	t.Helper()
	n, err := strconv.Atoi(rest[:min(3, len(rest))])
	if err != nil || len(rest) < 4 || rest[3] != ' ' {
		t.Fatalf("malformed status line %q", rest)
	}
	return n
}

func (a response) all(name string) []string {
	var values []string
	for _, f := range a.fields {
		if strings.EqualFold(f[0], name) {
			values = append(values, f[1])
		}
	}
	return values
}

func (a response) get(name string) string {
	if v := a.all(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (a response) has(name string) bool { return len(a.all(name)) > 0 }

// is fails unless the response has this status and body.
func (a response) is(status int, body string) {
	a.t.Helper()
	if a.status != status || a.body != body {
		a.t.Fatalf("got %d %s, want %d %q; head %s", a.status, shorten(a.body), status, body, shorten(a.head))
	}
}

// field fails unless the field occurs exactly once, with this value.
func (a response) field(name, value string) {
	a.t.Helper()
	if v := a.all(name); len(v) != 1 || v[0] != value {
		a.t.Fatalf("%s: %q, want %q once; head %s", name, v, value, shorten(a.head))
	}
}

// lacks fails if one of the fields is present.
func (a response) lacks(names ...string) {
	a.t.Helper()
	for _, n := range names {
		if a.has(n) {
			a.t.Fatalf("unwanted %s: %q; head %s", n, a.all(n), shorten(a.head))
		}
	}
}

// plainError fails unless this is a local reply with this status and body.
func (a response) plainError(status int, body string) {
	a.t.Helper()
	a.is(status, body)
	a.localError(status)
}

// localError fails unless this is a local reply that reports an error: plain text with a
// newline at its end, nosniff, and the gate's outcome.
func (a response) localError(status int) {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("got %d %s, want %d; head %s", a.status, shorten(a.body), status, shorten(a.head))
	}
	a.field("Content-Type", "text/plain; charset=utf-8")
	a.field("X-Content-Type-Options", "nosniff")
	if !strings.HasSuffix(a.body, "\n") {
		a.t.Fatalf("the body %q does not end in a newline", a.body)
	}
	a.byGate()
}

// byGate fails unless the response has the fields of all local replies.
func (a response) byGate() {
	a.t.Helper()
	if a.get("K-Gate-Outcome") == "" {
		a.t.Fatalf("a response of the gate without K-Gate-Outcome: %s", shorten(a.head))
	}
	if len(a.all("Date")) != 1 {
		a.t.Fatalf("Date: %q, want one; head %s", a.all("Date"), shorten(a.head))
	}
	if _, err := http.ParseTime(a.get("Date")); err != nil {
		a.t.Fatalf("Date: %v", err)
	}
	for _, leak := range []string{"127.0.0.1", "[::1]", "dial tcp", "read tcp", "write tcp", "reset by peer", "broken pipe", "EOF"} {
		if strings.Contains(a.body, leak) {
			a.t.Fatalf("the body %q leaks %q", a.body, leak)
		}
	}
}
