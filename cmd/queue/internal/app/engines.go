package app

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// maxLoops is the most event loops that are started unless THREADS says
// otherwise: one saturates a core, and few containers keep one busy.
const maxLoops = 4

// buildEngines builds the event loops with both protocols. session, if it is
// not nil, is how the container is spoken to.
func (a *App) buildEngines(session *tls.Config) (err error) {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(a.cfg.UserPort))
	protocol, err := upstream.ParseProtocol(a.cfg.UpstreamProtocol)
	if err != nil {
		return fmt.Errorf("UPSTREAM_PROTOCOL: %w", err)
	}
	choice := &upstream.Choice{}
	choice.Fix(protocol)
	c := http1.Config{
		Upstream:          address,
		Loops:             loops(a.cfg),
		UpstreamTLS:       session,
		UpstreamTLSFailed: func(err error) { a.often.Warn("no TLS session with the container", zap.Error(err)) },
		UpstreamRefused:   choice.Forget,
		Choice:            choice,
		Panicked:          func(v any) { a.often.Error("a request ended in a panic", zap.Any("panic", v)) },
	}
	streams := &http2.Config{
		Host:          []byte(address.String()),
		MaxHeaderList: int(a.cfg.HTTP2MaxHeaderList),
		Scheme:        "http",
		Panicked:      c.Panicked,
		Departed:      func() { a.http1.Departed() },
	}
	if session != nil {
		streams.Scheme = "https"
	}
	c.PartConnections = a.http2.Connections
	c.Part = func(l *loop.Loop, d *upstream.Dialer, pool gate.Connector, up *upstream.Stats) http1.Part {
		return http2.NewPart(l, a.gate, streams, &a.http2, d, choice, up, pool)
	}
	if a.http1, err = http1.NewServer(a.gate, c); err != nil {
		return err
	}
	a.readiness.notify(a.http1.Listening)
	return nil
}

// loops is the number of event loops: half the processors, so that the
// container has the others, within 1 and maxLoops.
func loops(cfg *config.Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
}
