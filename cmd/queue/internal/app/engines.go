package app

import (
	"crypto/tls"
	"net/netip"
	"runtime"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
)

// maxLoops is the most event loops that are started unless THREADS says
// otherwise: one saturates a core, and few containers keep one busy.
const maxLoops = 4

// upstreamProtocols are the values of UPSTREAM_PROTOCOL.
var upstreamProtocols = map[string]http2.Protocol{"auto": http2.Auto, "http1": http2.HTTP1, "h2c": http2.H2C}

// buildEngines builds both engines. session, if it is not nil, is how the
// container is spoken to.
func (a *App) buildEngines(session *tls.Config) (err error) {
	upstream := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(a.cfg.UserPort))
	untrusted := func(err error) { a.often.Warn("no TLS session with the container", zap.Error(err)) }
	panicked := func(v any) { a.often.Error("a request ended in a panic", zap.Any("panic", v)) }
	a.http2, err = http2.NewServer(a.gate, http2.Config{
		Upstream:          upstream,
		Protocol:          upstreamProtocols[a.cfg.UpstreamProtocol],
		UpstreamTLS:       session,
		UpstreamTLSFailed: untrusted,
		Panicked:          panicked,
	})
	if err != nil {
		return err
	}
	a.http1, err = http1.NewServer(a.gate, http1.Config{
		Upstream:          upstream,
		Loops:             loops(a.cfg),
		HTTP2:             a.http2.TakeOver,
		UpstreamTLS:       session,
		UpstreamTLSFailed: untrusted,
		Panicked:          panicked,
	})
	a.readiness.notify(a.http2.Listening, a.http1.Listening)
	return err
}

// loops is the number of event loops: half the processors, so that the
// container has the others, within 1 and maxLoops.
func loops(cfg *config.Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
}
