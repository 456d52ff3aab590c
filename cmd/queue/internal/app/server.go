package app

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// maxLoops is the maximum number of event loops unless THREADS is set.
const maxLoops = 4

// buildServer builds the event loops. session is the TLS configuration for the
// container; nil = plaintext.
func (a *App) buildServer(session *tls.Config) (err error) {
	speaks, err := upstream.ParseProtocol(a.cfg.UpstreamProtocol)
	if err != nil {
		return fmt.Errorf("UPSTREAM_PROTOCOL: %w", err)
	}
	a.http2 = &http2.Protocol{MaxHeaderList: int(a.cfg.HTTP2MaxHeaderList), Scheme: "http"}
	if session != nil {
		a.http2.Scheme = "https"
	}
	a.server, err = server.NewServer(a.gate, server.Config{
		Loops: loops(a.cfg),
		HTTP1: &http1.Protocol{},
		HTTP2: a.http2,
		Upstream: upstream.Config{
			Address:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(a.cfg.UserPort)),
			TLS:       session,
			TLSFailed: func(err error) { a.often.Warn("the TLS handshake with the container has failed", zap.Error(err)) },
		},
		Speaks:   speaks,
		Panicked: func(v any) { a.often.Error("a request ended in a panic", zap.Any("panic", v)) },
	})
	if err != nil {
		return err
	}
	a.readiness.notify(a.server.Listening)
	return nil
}

// loops returns the number of event loops. This is THREADS if it is set. Otherwise it is
// half of GOMAXPROCS, but at least 1 and at most maxLoops.
func loops(cfg *config.Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
}
