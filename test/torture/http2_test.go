package torture

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/queuegate/queuegate/test/torture/script"
)

// http2 is the standard library's h2c client with one connection. It retries only
// requests that the gate reports as unprocessed.
type http2 struct {
	addr      string
	transport *http.Transport

	mu    sync.Mutex
	conns []*net.TCPConn // connections opened since the last abort
}

func newHTTP2(addr string) *http2 {
	c := &http2{addr: addr, transport: &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}}
	c.transport.Protocols.SetUnencryptedHTTP2(true)
	c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, &dialError{err}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn.(*net.TCPConn))
		return conn, nil
	}
	return c
}

type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func (c *http2) close() { c.abort(false) }

func (c *http2) abort(reset bool) {
	c.mu.Lock()
	for _, conn := range c.conns {
		if reset {
			_ = conn.SetLinger(0)
		}
		_ = conn.Close()
	}
	c.conns = nil
	c.mu.Unlock()
	c.transport.CloseIdleConnections()
}

func (c *http2) do(q *request, rng *rand.Rand) (requestResult, string) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, "http://"+c.addr+"/"+strconv.Itoa(q.id), nil)
	if err != nil {
		return wrongResponse, err.Error()
	}
	for name, value := range map[string]int{script.ID: q.id, script.Wait: q.wait, script.Size: int(q.size)} {
		r.Header.Set(name, strconv.Itoa(value))
	}
	r.Header.Set(script.Do, q.do)
	if body := q.body; q.method != "GET" {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
		if r.ContentLength = int64(len(body)); q.chunked || len(body) == 0 {
			r.ContentLength = -1
		}
	}
	if q.cut {
		defer time.AfterFunc(randomIn(rng, 0, 4*time.Millisecond), cancel).Stop()
	}
	v, reason := c.exchange(q, r, rng)
	if q.cut && v != wrongResponse && v != notSent {
		return aborted, ""
	}
	return v, reason
}

func (c *http2) exchange(q *request, r *http.Request, rng *rand.Rand) (requestResult, string) {
	a, err := c.transport.RoundTrip(r)
	if err == nil {
		return q.judge(a, rng)
	}
	if dial := new(dialError); errors.As(err, &dial) {
		return notSent, err.Error()
	}
	return resultOfError(err)
}
