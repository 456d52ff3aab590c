package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// end is one end of a connection. Its methods fail the test if they receive something
// unexpected.
type end struct {
	t    *testing.T
	name string
	w    io.Writer
	r    *bufio.Reader
}

func newEnd(t *testing.T, name string, rw io.ReadWriter) *end {
	return &end{t: t, name: name, w: rw, r: bufio.NewReaderSize(rw, 64<<10)}
}

func (e *end) send(s string) {
	e.t.Helper()
	if _, err := io.WriteString(e.w, s); err != nil {
		e.t.Fatalf("%s sends %s: %v", e.name, shorten(s), err)
	}
}

// head reads up to the empty line.
func (e *end) head() string {
	e.t.Helper()
	var b strings.Builder
	for {
		line, err := e.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			e.t.Fatalf("%s waits for a head: %v after %s", e.name, err, shorten(b.String()))
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// line reads a line without its CRLF.
func (e *end) line() string {
	e.t.Helper()
	line, err := e.r.ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "\r\n") {
		e.t.Fatalf("%s waits for a line: %v after %s", e.name, err, shorten(line))
	}
	return strings.TrimSuffix(line, "\r\n")
}

func (e *end) exactly(n int) string {
	e.t.Helper()
	p := make([]byte, n)
	k, err := io.ReadFull(e.r, p)
	if err != nil {
		e.t.Fatalf("%s waits for %d bytes: %v after %s", e.name, n, err, shorten(string(p[:k])))
	}
	return string(p)
}

func (e *end) expect(want string) {
	e.t.Helper()
	if got := e.exactly(len(want)); got != want {
		e.t.Fatalf("%s got %s, want %s", e.name, shorten(got), shorten(want))
	}
}

// some returns the bytes received so far, at least one byte, or "" at EOF.
func (e *end) some() string {
	// Peek waits for a byte. If Peek returns an error, the buffer is empty, so this
	// method returns "".
	_, _ = e.r.Peek(1)
	p, _ := e.r.Peek(e.r.Buffered())
	s := string(p)
	_, _ = e.r.Discard(len(p))
	return s
}

// chunk reads a chunk without extensions. The last chunk is "", and the trailer section
// stays unread.
func (e *end) chunk() string {
	e.t.Helper()
	size := e.line()
	n, err := strconv.ParseUint(size, 16, 31)
	if err != nil {
		e.t.Fatalf("%s got chunk size %q", e.name, size)
	}
	if n == 0 {
		return ""
	}
	data := e.exactly(int(n))
	e.expect("\r\n")
	return data
}

func (e *end) chunked() (body, trailers string) {
	e.t.Helper()
	var b strings.Builder
	for c := e.chunk(); c != ""; c = e.chunk() {
		b.WriteString(c)
	}
	var tr strings.Builder
	for line := e.line(); line != ""; line = e.line() {
		tr.WriteString(line + "\r\n")
	}
	return b.String(), tr.String()
}

// readAll reads until the connection ends. err is nil after an orderly close.
func (e *end) readAll() (string, error) {
	e.t.Helper()
	b, err := io.ReadAll(e.r)
	if err != nil && !isReset(err) {
		e.t.Fatalf("%s waits for the end of the connection: %v after %s", e.name, err, shorten(string(b)))
	}
	return string(b), err
}

// closed fails unless the connection ends without another byte.
func (e *end) closed() {
	e.t.Helper()
	if b, _ := e.readAll(); b != "" {
		e.t.Fatalf("%s got %s where the connection should have ended", e.name, shorten(b))
	}
}

func asErrno(err error) (syscall.Errno, bool) {
	var e syscall.Errno
	ok := errors.As(err, &e)
	return e, ok
}

// shorten quotes s, without the middle if s is long.
func shorten(s string) string {
	const limit = 1500
	if len(s) <= limit {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q … %d bytes … %q", s[:limit/2], len(s)-limit, s[len(s)-limit/2:])
}
