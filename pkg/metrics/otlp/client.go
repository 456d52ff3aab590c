package otlp

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleTimeout is how long a connection outlives its last message.
const idleTimeout = 90 * time.Second

// maxResponse bounds what is read of a response, in bytes.
const maxResponse = 64 << 10

const userAgent = "queuegate"

// client does not use a connection again after a failure or a timeout.
type client struct {
	tls tls.Config

	mu        sync.Mutex
	transport *http.Transport // nil at first, and after a failure
}

// do returns the response with at most maxResponse bytes of its body.
func (c *client) do(r *http.Request) (*http.Response, []byte, error) {
	c.mu.Lock()
	if c.transport == nil {
		c.transport = c.newTransport()
	}
	t := c.transport
	c.mu.Unlock()
	response, err := t.RoundTrip(r)
	if err != nil {
		c.abandon(t)
		return nil, nil, fmt.Errorf("sending to %s: %w", r.URL.Host, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		c.abandon(t)
		return nil, nil, fmt.Errorf("reading the response of %s: %w", r.URL.Host, err)
	}
	return response, body, nil
}

// abandon leaves t to its idle timeout.
func (c *client) abandon(t *http.Transport) {
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
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.tls.Clone(),
		TLSHandshakeTimeout: RequestTimeout,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		Protocols:           protocols,
	}
}

func authorize(r *http.Request) {
	if u := r.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
}
