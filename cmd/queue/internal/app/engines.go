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
)

// maxLoops is the most event loops that are started unless THREADS says
// otherwise: one saturates a core, and few containers keep one busy.
const maxLoops = 4

// makeEngines makes the gate and both engines. session, if it is not nil, is
// how the container is spoken to.
func (p *App) makeEngines(session *tls.Config) (err error) {
	c := p.cfg.Gate
	c.Readiness, c.Contact, c.Observer = p.ready.probes, p.ready, p.seen
	if p.gate, err = gate.New(c); err != nil {
		return err
	}
	upstream := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(p.cfg.UserPort))
	untrusted := func(err error) { // away from the engine's loop: a log can block
		go p.often.Warn("no TLS session with the container", zap.Error(err))
	}
	panicked := func(v any) { p.often.Error("a request ended in a panic", zap.Any("panic", v)) }
	p.streams, err = newHTTP2(p.cfg, p.gate, http2.Config{
		Upstream:          upstream,
		UpstreamTLS:       session,
		UpstreamTLSFailed: untrusted,
		Panicked:          panicked,
	})
	if err != nil {
		return err
	}
	p.server, err = http1.NewServer(p.gate, http1.Config{
		Upstream:          upstream,
		Loops:             loops(p.cfg),
		HTTP2:             p.streams.TakeOver,
		UpstreamTLS:       session,
		UpstreamTLSFailed: untrusted,
		Panicked:          panicked,
	})
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
