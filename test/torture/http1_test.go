package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

// http1 is an HTTP/1.1 client with one connection and without retries.
type http1 struct {
	addr string
	rng  *rand.Rand
	conn *net.TCPConn
	r    *bufio.Reader
}

func (c *http1) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// do sends a request and reads the response, or ends the connection early if the request
// is to be cut.
func (c *http1) do(q *request) (requestResult, string) {
	if q.newConn {
		c.close()
	}
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, testTimeout)
		if err != nil {
			return notSent, err.Error()
		}
		c.conn, c.r = conn.(*net.TCPConn), bufio.NewReaderSize(conn, 16<<10)
	}
	_ = c.conn.SetDeadline(time.Now().Add(testTimeout))
	out := q.wire(q.newConn && c.rng.IntN(2) == 0)
	if q.cut {
		c.cutAt(q, out)
		return aborted, ""
	}
	written := make(chan error, 1)
	if len(out) > 16<<10 {
		go func(conn net.Conn) { _, err := conn.Write(out); written <- err }(c.conn)
	} else {
		_, err := c.conn.Write(out)
		written <- err
	}
	v, reason, keep := c.readResponse(q)
	if !keep {
		c.close()
	}
	if err := <-written; err != nil {
		c.close() // the response counts even if the request was not sent completely
	}
	return v, reason
}

func (q *request) wire(last bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s /%d HTTP/1.1\r\nHost: torture\r\n%s: %d\r\n%s: %s\r\n%s: %d\r\n%s: %d\r\n",
		q.method, q.id, script.ID, q.id, script.Do, q.do, script.Wait, q.wait, script.Size, q.size)
	if last {
		b.WriteString("Connection: close\r\n")
	}
	switch {
	case q.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := q.body; len(rest) > 0; {
			n := min(len(rest), 512+q.id%5000)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case q.method != "GET":
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(q.body), q.body)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// cutAt ends the connection after a random part of the request or the response, by FIN or
// reset.
func (c *http1) cutAt(q *request, out []byte) {
	// The client sends the request, or a part of it, and reads fewer than q.size bytes. A
	// complete response is longer, because it also has a head. So the connection always
	// ends before the response is complete.
	at := c.rng.IntN(len(out) + int(q.size))
	_, err := c.conn.Write(out[:min(at, len(out))])
	if at > len(out) && err == nil {
		_, _ = io.CopyN(io.Discard, c.conn, int64(at-len(out)))
	}
	if c.rng.IntN(2) == 0 {
		_ = c.conn.SetLinger(0)
	}
	c.close()
}

// readResponse reads a response. keep reports whether the connection can be reused.
func (c *http1) readResponse(q *request) (v requestResult, reason string, keep bool) {
	var a *http.Response
	for a == nil || a.StatusCode < 200 {
		var err error
		if a, err = http.ReadResponse(c.r, &http.Request{Method: q.method}); err != nil {
			v, reason = resultOfError(err)
			return v, reason, false
		}
	}
	v, reason = q.judge(a, c.rng)
	return v, reason, v != cut && v != lost && !a.Close
}

// judge checks that the body of a response belongs to q.
func (q *request) judge(a *http.Response, rng *rand.Rand) (requestResult, string) {
	defer a.Body.Close()
	if q.pause {
		time.Sleep(randomIn(rng, 10*time.Millisecond, 500*time.Millisecond))
	}
	if outcome := a.Header.Get("K-Gate-Outcome"); outcome != "" {
		if _, err := io.Copy(io.Discard, io.LimitReader(a.Body, 1<<20)); err != nil {
			return resultOfError(err)
		}
		if a.StatusCode < 400 {
			return wrongResponse, fmt.Sprintf("status %d with outcome %s", a.StatusCode, outcome)
		}
		return rejected, outcome
	}
	if a.StatusCode != 200 || a.Header.Get(script.ID) != strconv.Itoa(q.id) {
		return wrongResponse, fmt.Sprintf("status %d, request %q", a.StatusCode, a.Header.Get(script.ID))
	}
	if err := q.check(a.Body); err != nil {
		return resultOfError(err)
	}
	return served, ""
}

// resultOfError returns the result of a request whose response could not be read because of
// err.
func resultOfError(err error) (requestResult, string) {
	switch {
	case errors.Is(err, script.ErrWrong):
		return wrongResponse, err.Error()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return lost, err.Error()
	}
	return cut, err.Error()
}
