package check

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
)

// overHTTP2 sends the request of h as HTTP/2 by prior knowledge.
func overHTTP2(ctx context.Context, conn net.Conn, h hop) (Response, Cause) {
	request := &http.Request{Method: http.MethodGet, URL: h.url, Host: h.host, Header: http.Header{}}
	for _, header := range h.headers {
		if !notForwarded(header.Name) && (header.Value != "" || !strings.EqualFold(header.Name, "Accept")) {
			request.Header.Add(header.Name, header.Value)
		}
	}
	var result Response
	cause := roundTripHTTP2(ctx, conn, request, func(response *http.Response) (cause Cause) {
		result, cause = readBody(response, h.keep)
		return cause
	})
	return result, cause
}

// roundTripHTTP2 runs one exchange over conn with net/http's client and hands
// the response to read, which reads the body. The caller closes conn; no
// goroutine outlives that.
func roundTripHTTP2(ctx context.Context, conn net.Conn, request *http.Request, read func(*http.Response) Cause) Cause {
	watched := &watchedConn{Conn: conn}
	var once sync.Once
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (c net.Conn, err error) {
			err = net.ErrClosed
			once.Do(func() { c, err = watched, nil })
			return c, err
		},
		Protocols:              new(http.Protocols),
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	defer watched.Close()

	response, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return watched.explain(ctx, err)
	}
	defer response.Body.Close()
	cause := read(response)
	switch cause.Kind {
	case CauseMalformed, CauseTimeout, CauseStopped:
		if cause.Detail == "" {
			return watched.explain(ctx, errors.New("malformed"))
		}
	}
	return cause
}

// watchedConn notes how the connection went, because the HTTP/2 client does not
// tell a reset from a malformed frame.
type watchedConn struct {
	net.Conn
	mu   sync.Mutex
	head []byte // the first bytes read, up to 5
	err  error
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(b[:n], err)
	return n, err
}

func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.note(nil, err)
	return n, err
}

func (c *watchedConn) note(read []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = append(c.head, read[:min(len(read), 5-len(c.head))]...)
	// The first error counts, except that a reset explains a broken pipe.
	if err != nil && (c.err == nil || errors.Is(err, syscall.ECONNRESET)) && !errors.Is(err, net.ErrClosed) {
		c.err = err
	}
}

// explain names the cause of err: the deadline, the connection's own fault, or
// else what the client made of the bytes.
func (c *watchedConn) explain(ctx context.Context, err error) Cause {
	if ctx.Err() != nil {
		return causeOf(ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case string(c.head) == "HTTP/":
		return Cause{Kind: CauseMalformed, Detail: "the server speaks HTTP/1"}
	case c.err == nil, errors.Is(c.err, io.EOF) && len(c.head) > 0 && !strings.Contains(err.Error(), "EOF"):
		// The client complained of something it read before the end.
		return causeOf(err)
	}
	return causeOf(c.err)
}
