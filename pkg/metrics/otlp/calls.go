package otlp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/internal/h2conn"
)

// calls is an HTTP/2 client whose connections carry one call at a time. It keeps one
// idle connection. A connection that failed or timed out is not reused.
type calls struct {
	tls *tls.Config

	mu   sync.Mutex
	idle *callConn // idle connection; nil = none
	end  *time.Timer
}

type callConn struct {
	net.Conn
	http2 *h2conn.Conn
}

// do returns the response with at most maxResponse bytes of its body.
func (c *calls) do(r *http.Request) (*http.Response, []byte, error) {
	ctx := r.Context()
	if conn := c.take(); conn != nil {
		response, err := c.exchange(ctx, conn, r)
		if err == nil || ctx.Err() != nil {
			return read(r, response, err)
		}
		// The collector may have closed the idle connection. Retry once, on a new one.
		r = r.Clone(ctx)
		if r.Body, err = r.GetBody(); err != nil {
			return nil, nil, err
		}
	}
	conn, err := c.dial(ctx, r.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to %s: %w", r.URL.Host, err)
	}
	response, err := c.exchange(ctx, conn, r)
	return read(r, response, err)
}

func read(r *http.Request, response *http.Response, err error) (*http.Response, []byte, error) {
	if err != nil {
		return nil, nil, fmt.Errorf("sending to %s: %w", r.URL.Host, err)
	}
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// exchange runs a call over conn. Then it keeps conn as the idle connection, or closes
// it.
func (c *calls) exchange(ctx context.Context, conn *callConn, r *http.Request) (*http.Response, error) {
	stop := expire(ctx, conn)
	response, err := conn.http2.RoundTrip(r, maxResponse)
	if stop() && err == nil && conn.http2.Usable() {
		c.put(conn)
	} else {
		conn.Close()
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return response, err
}

// expire aborts reads and writes of conn when ctx ends, until stop is called.
func expire(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

func (c *calls) take() *callConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.idle
	if conn != nil {
		c.end.Stop()
		c.idle = nil
	}
	return conn
}

func (c *calls) put(conn *callConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		conn.Close()
		return
	}
	c.idle = conn
	c.end = time.AfterFunc(idleTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle == conn {
			c.idle = nil
			conn.Close()
		}
	})
}

func (c *calls) close() {
	if conn := c.take(); conn != nil {
		conn.Close()
	}
}

// dial connects to the host of u as net/http does: through the proxy from the
// environment, and with TLS for https.
func (c *calls) dial(ctx context.Context, u *url.URL) (*callConn, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil {
		return nil, err
	}
	to := u
	if proxy != nil {
		to = proxy
	}
	conn, err := (&net.Dialer{Timeout: RequestTimeout}).DialContext(ctx, "tcp", address(to))
	if err != nil {
		return nil, err
	}
	stop := expire(ctx, conn)
	secured := conn
	if proxy != nil {
		secured, err = tunnel(ctx, conn, proxy, address(u))
	}
	if err == nil && u.Scheme == "https" {
		secured, err = c.secure(ctx, secured, u)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &callConn{secured, h2conn.New(secured)}, nil
}

func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (c *calls) secure(ctx context.Context, conn net.Conn, u *url.URL) (net.Conn, error) {
	cfg := c.tls.Clone()
	cfg.NextProtos, cfg.ServerName = []string{"h2"}, u.Hostname()
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if secured.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.New("the collector does not speak HTTP/2")
	}
	return secured, nil
}

// tunnel sends the request CONNECT to a proxy, for the address in the last parameter. It
// returns the connection through the proxy. If the proxy has the scheme https, the
// connection to the proxy uses TLS.
func tunnel(ctx context.Context, conn net.Conn, proxy *url.URL, to string) (net.Conn, error) {
	switch proxy.Scheme {
	case "http":
	case "https":
		secured := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	default:
		return nil, fmt.Errorf("proxy %s: gRPC goes through http and https proxies only", proxy.Redacted())
	}
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return nil, err
	}
	// The collector's first bytes may arrive together with the response of the proxy: a
	// server of plaintext HTTP/2 may send its SETTINGS before it has read anything.
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy says %s", response.Status)
	}
	return tunnelConn{Conn: conn, buffered: buffered}, nil
}

// tunnelConn is a connection through a proxy. Reads first return the bytes that were read
// together with the proxy's response.
type tunnelConn struct {
	net.Conn
	buffered *bufio.Reader
}

func (c tunnelConn) Read(p []byte) (int, error) { return c.buffered.Read(p) }
