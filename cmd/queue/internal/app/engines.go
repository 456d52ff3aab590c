package app

import (
	"crypto/tls"
	"net/netip"
	"runtime"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/http2loop"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// maxLoops is the most event loops that are started unless THREADS says
// otherwise: one saturates a core, and few containers keep one busy.
const maxLoops = 4

// upstreamProtocols are the values of UPSTREAM_PROTOCOL.
var upstreamProtocols = map[string]http2.Protocol{"auto": http2.Auto, "http1": http2.HTTP1, "h2c": http2.H2C}

// buildEngines builds both engines. session, if it is not nil, is how the
// container is spoken to.
func (a *App) buildEngines(session *tls.Config) (err error) {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(a.cfg.UserPort))
	untrusted := func(err error) { a.often.Warn("no TLS session with the container", zap.Error(err)) }
	panicked := func(v any) { a.often.Error("a request ended in a panic", zap.Any("panic", v)) }
	c := http1.Config{
		Upstream:          address,
		Loops:             loops(a.cfg),
		UpstreamTLS:       session,
		UpstreamTLSFailed: untrusted,
		Panicked:          panicked,
	}
	if a.cfg.HTTP2Engine == "loop" {
		a.loopHTTP2(&c)
	} else {
		a.http2, err = http2.NewServer(a.gate, http2.Config{
			Upstream:          address,
			Protocol:          upstreamProtocols[a.cfg.UpstreamProtocol],
			UpstreamTLS:       session,
			UpstreamTLSFailed: untrusted,
			Panicked:          panicked,
		})
		if err != nil {
			return err
		}
		c.HTTP2 = a.http2.TakeOver
	}
	if a.http1, err = http1.NewServer(a.gate, c); err != nil {
		return err
	}
	a.readiness.notify(a.http1.Listening)
	if a.http2 != nil {
		a.readiness.notify(a.http2.Listening, a.http1.Listening)
	}
	return nil
}

// loopHTTP2 adds HTTP/2 to the loops of c.
func (a *App) loopHTTP2(c *http1.Config) {
	choice := &upstream.Choice{}
	p, _ := upstream.ParseProtocol(a.cfg.UpstreamProtocol) // the configuration has checked it
	choice.Fix(p)
	settings := &http2loop.Config{Host: []byte(c.Upstream.String()), Scheme: "http", Panicked: c.Panicked, Departed: func() { a.http1.Departed() }}
	if c.UpstreamTLS != nil {
		settings.Scheme = "https"
	}
	a.http2Stats = &http2loop.Stats{}
	c.Choice, c.UpstreamRefused = choice, choice.Forget
	c.Part = func(l *loop.Loop, d *upstream.Dialer, pool gate.Connector, up *upstream.Stats) http1.Part {
		return http2loop.NewPart(l, a.gate, settings, a.http2Stats, d, choice, up, pool)
	}
}

// adoptTLS takes over a connection after its handshake: its client has chosen
// the protocol.
func (a *App) adoptTLS(fd int, peer netip.AddrPort, layer *loop.Layer) {
	if c, ok := layer.Codec().(*tls.Conn); ok && a.http2 == nil && c.ConnectionState().NegotiatedProtocol == "h2" {
		a.http1.AdoptPart(fd, peer, layer)
		return
	}
	a.http1.Adopt(fd, peer, layer)
}

// loops is the number of event loops: half the processors, so that the
// container has the others, within 1 and maxLoops.
func loops(cfg *config.Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
}
