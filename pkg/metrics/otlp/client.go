package otlp

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// idleTimeout is how long a connection outlives its last message.
const idleTimeout = 90 * time.Second

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

const userAgent = "queuegate"

// client makes requests on connections that it trusts: after a broken or timed
// out one it begins anew. HTTP/2 would go on waiting for a peer that vanished
// silently, and its own remedy is to send pings for ever.
type client struct {
	protocols *http.Protocols
	tls       tls.Config

	mu        sync.Mutex
	transport *http.Transport // nil at first, and after a failure
}

// do returns the answer with at most maxAnswer bytes of its body.
func (c *client) do(r *http.Request) (*http.Response, []byte, error) {
	c.mu.Lock()
	if c.transport == nil {
		c.transport = c.newTransport()
	}
	t := c.transport
	c.mu.Unlock()
	answer, err := t.RoundTrip(r)
	if err != nil {
		c.mistrust(t)
		return nil, nil, fmt.Errorf("sending to %s: %w", r.URL.Host, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		c.mistrust(t)
		return nil, nil, fmt.Errorf("reading the answer of %s: %w", r.URL.Host, err)
	}
	return answer, body, nil
}

// mistrust leaves t to its idle timeout.
func (c *client) mistrust(t *http.Transport) {
	c.mu.Lock()
	if c.transport == t {
		c.transport = nil
	}
	c.mu.Unlock()
	t.CloseIdleConnections()
}

func (c *client) close() {
	c.mu.Lock()
	t := c.transport
	c.mu.Unlock()
	if t != nil {
		t.CloseIdleConnections()
	}
}

func (c *client) newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: RequestTimeout}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.tls.Clone(),
		TLSHandshakeTimeout: RequestTimeout,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		Protocols:           c.protocols,
	}
}

func newRequest(ctx context.Context, u *url.URL, header http.Header) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	authorize(r)
	return r.WithContext(ctx)
}

func authorize(r *http.Request) {
	if u := r.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
}
