package http2

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Limits towards the container.
const (
	maxIdleHTTP1  = 1024
	maxIdleTime   = 90 * time.Second
	answerWindow  = 64 << 10 // what the container may send ahead of a client
	answersWindow = 1 << 30  // the same for all of a connection: none that is not read may hold others up
	maxAnswerHead = 1 << 20
)

// upstream is the way to the container: connections over HTTP/2, each carrying
// many requests, or a pool of those over HTTP/1.1, and the line of requests
// that are held because the container does not listen.
type upstream struct {
	srv     *Server
	gate    *gate.Gate
	address string
	h2c     *http.Transport
	http1   *http.Transport

	proto    atomic.Uint32 // Protocol; Auto = not known
	proven   atomic.Bool   // and some request has been answered in it
	listened atomic.Bool   // the container has accepted a connection at least once
	open     atomic.Int64
	dials    atomic.Int64
	reuses   atomic.Int64
	replays  atomic.Int64
	line     heldLine

	mu       sync.Mutex
	clients  []*client
	busy     chan struct{} // closed when the dial or the learning under way has ended; nil = none
	finished bool
}

// UpstreamStats are the figures of the connections to the container.
type UpstreamStats struct {
	gate.UpstreamStats
	Protocol Protocol // Auto = not known
}

// client is one connection over HTTP/2.
type client struct {
	*http.ClientConn
	conn *conn
	used atomic.Bool
}

func newUpstream(s *Server) *upstream {
	u := &upstream{srv: s, gate: s.gate, address: s.cfg.Upstream.String()}
	u.proto.Store(uint32(s.cfg.Protocol))
	u.line.init(u)
	u.h2c = &http.Transport{
		DialContext:            u.dialH2C,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHead,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     answerWindow,
			MaxReceiveBufferPerConnection: answersWindow,
		},
	}
	u.h2c.Protocols.SetUnencryptedHTTP2(true)
	u.http1 = &http.Transport{
		DialContext:            u.dialHTTP1,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHead,
		MaxIdleConns:           maxIdleHTTP1,
		MaxIdleConnsPerHost:    maxIdleHTTP1,
		IdleConnTimeout:        maxIdleTime,
		Protocols:              new(http.Protocols),
	}
	u.http1.Protocols.SetHTTP1(true)
	return u
}

// way is what carries one request.
type way struct {
	http.RoundTripper
	client *client // nil = HTTP/1.1
	reused bool
}

// way finds out how the container is reached now, and waits until it listens.
func (u *upstream) way(s *stream) (way, gate.Outcome) {
	for {
		if !u.line.blocked() {
			w, err := u.tryWay(s)
			if err == nil {
				return w, gate.Served
			}
			if o := s.ended(); o != gate.Served {
				return way{}, o
			}
			switch {
			case errors.Is(err, errTLS):
				return way{}, gate.UpstreamTLSFailed
			case !errors.As(err, new(dialError)):
				return way{}, gate.UpstreamClosed
			}
			u.line.refused()
		}
		if o := u.line.hold(s); o != gate.Served {
			return way{}, o
		}
	}
}

// tryWay is way without waiting for the container to listen.
func (u *upstream) tryWay(s *stream) (way, error) {
	for {
		switch Protocol(u.proto.Load()) {
		case HTTP1:
			return way{RoundTripper: u.http1}, nil
		case H2C:
			c, err := u.client(s.ctx)
			if err != nil {
				return way{}, err
			}
			reused := c.used.Swap(true)
			if reused {
				u.reuses.Inc()
			}
			return way{RoundTripper: c, client: c, reused: reused}, nil
		}
		if err := u.alone(s.ctx, u.learn); err != nil {
			return way{}, err
		}
	}
}

// client returns a connection on which a stream is reserved.
func (u *upstream) client(ctx context.Context) (*client, error) {
	for {
		if c := u.reserve(); c != nil {
			return c, nil
		}
		if err := u.alone(ctx, u.connect); err != nil {
			return nil, err
		}
	}
}

// reserve takes a stream of a connection that has one to spare.
func (u *upstream) reserve() *client {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := 0; i < len(u.clients); {
		c := u.clients[i]
		switch {
		case c.Reserve() == nil:
			return c
		case c.Err() != nil:
			u.clients = slices.Delete(u.clients, i, i+1)
		default:
			i++
		}
	}
	return nil
}

// alone runs f, or waits for the end of another that runs.
func (u *upstream) alone(ctx context.Context, f func(context.Context) error) error {
	u.mu.Lock()
	if other := u.busy; other != nil {
		u.mu.Unlock()
		select {
		case <-other:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	u.busy = done
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		u.busy = nil
		u.mu.Unlock()
		close(done)
	}()
	return f(context.WithoutCancel(ctx)) // others wait for it too
}

// connect adds a connection over HTTP/2.
func (u *upstream) connect(ctx context.Context) error {
	c := &client{}
	cc, err := u.h2c.NewClientConn(context.WithValue(ctx, clientKey{}, c), "http", u.address)
	if err != nil {
		return dialError{err}
	}
	c.ClientConn = cc
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.finished {
		_ = cc.Close()
		return dialError{net.ErrClosed}
	}
	u.clients = append(u.clients, c)
	return nil
}

// forget makes the engine learn anew what the container speaks, if it is
// believed to speak p.
func (u *upstream) forget(p Protocol) {
	if u.srv.cfg.Protocol == Auto {
		if u.proto.CompareAndSwap(uint32(p), uint32(Auto)) {
			u.proven.Store(false)
		}
	}
}

// prove says that a request has been answered.
func (u *upstream) prove() {
	if !u.proven.Load() {
		u.proven.Store(true)
	}
}

// mismatch reports whether err means that the container does not speak the
// protocol of the way. Then it has not understood the request.
func (u *upstream) mismatch(ctx context.Context, w way, err error) bool {
	if u.srv.cfg.Protocol != Auto {
		return false
	}
	if w.client == nil {
		if u.proven.Load() {
			return false
		}
		// Some that speak HTTP/2 alone close without a word.
		u.forget(HTTP1)
		return u.alone(ctx, u.learn) == nil && Protocol(u.proto.Load()) == H2C
	}
	if !w.client.conn.heard.Load() { // closed without a word
		u.forget(H2C)
		return true
	}
	return w.client.conn.mismatch.Load()
}

func (u *upstream) stats() UpstreamStats {
	return UpstreamStats{
		gate.UpstreamStats{Open: int(u.open.Load()), Dials: u.dials.Load(), Reuses: u.reuses.Load(), Replays: u.replays.Load()},
		Protocol(u.proto.Load()),
	}
}

func (u *upstream) close() {
	u.mu.Lock()
	u.finished = true
	left := u.clients
	u.clients = nil
	u.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
	u.http1.CloseIdleConnections()
	u.line.close()
}
