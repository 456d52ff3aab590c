package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// dialPatience bounds a connection attempt, and the handshake after it.
const dialPatience = 5 * time.Second

// dialError says that no connection could be made.
type dialError struct{ err error }

func (e dialError) Error() string { return "connecting to the container: " + e.err.Error() }
func (e dialError) Unwrap() error { return e.err }

type clientKey struct{}

func (u *upstream) dialH2C(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := u.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.first = func(b []byte) {
		if b[0] != 0 { // not a short frame, as SETTINGS is
			c.mismatch.Store(true)
			u.forget(H2C)
		}
	}
	if client, ok := ctx.Value(clientKey{}).(*client); ok {
		client.conn = c
	}
	return c, nil
}

func (u *upstream) dialHTTP1(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := u.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.probed()
	c.first = func(b []byte) {
		if b[0] == 0 { // a frame
			u.forget(HTTP1)
		}
	}
	return c, nil
}

// dial opens a connection, or takes the one that the line has opened.
func (u *upstream) dial(ctx context.Context) (*conn, error) {
	raw := u.line.takeSpare()
	if raw == nil {
		ctx, cancel := context.WithTimeout(ctx, dialPatience)
		defer cancel()
		var err error
		if raw, err = (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", u.address); err != nil {
			return nil, dialError{err}
		}
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		loop.EaseConn(tcp)
	}
	u.line.reached()
	raw, err := u.secure(ctx, raw)
	if err != nil {
		return nil, err
	}
	u.dials.Inc()
	u.open.Inc()
	c := newConn(raw, u.srv.cfg.Upstream, nil)
	c.done = func() { u.open.Dec() }
	return c, nil
}

// errTLS says that the container listens, but no session came about.
var errTLS = errors.New("no TLS session with the container")

// secure makes a session of TLS over c, if the container is spoken to so.
func (u *upstream) secure(ctx context.Context, c net.Conn) (net.Conn, error) {
	config := u.srv.cfg.UpstreamTLS
	if config == nil {
		return c, nil
	}
	config = config.Clone()
	switch Protocol(u.proto.Load()) {
	case H2C:
		config.NextProtos = []string{"h2"}
	case HTTP1:
		config.NextProtos = []string{"http/1.1"}
	default:
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	session := tls.Client(c, config)
	if err := session.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		u.srv.cfg.UpstreamTLSFailed(err)
		return nil, errTLS
	}
	return session, nil
}

// isConnReset reports whether the container's connection was reset.
func isConnReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isMalformed reports whether the container's answer was not understood. The
// library has no better way to say it.
func isMalformed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "PROTOCOL_ERROR") ||
		strings.Contains(text, "response header") || strings.Contains(text, "frame header")
}
