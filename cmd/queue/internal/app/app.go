// Package app is a running gate: it builds the parts from the configuration, in the
// order of their dependencies, and connects them.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/http2"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/lines"
	"github.com/queuegate/queuegate/pkg/metrics/push"
)

// App is a gate with all its ports.
type App struct {
	cfg   *config.Config
	build metrics.Build
	log   *zap.Logger
	often *zap.Logger   // rate-limited, for messages that peers can cause
	lines *lines.Writer // output of both logs

	sockets        *sockets.Set
	predecessor    *Predecessor // nil = none
	beforeTakeOver func() error // may be nil
	handover       handover

	live           *liveSettings
	status         *status // nil = no page
	readiness      *readiness
	exporters      *exporters
	engine         *engine // nil = no ENGINE_METRICS
	observer       *observer
	gate           *exchange.Gate
	idle           *Idle // nil = the application is never suspended
	http2          *http2.Protocol
	server         *server.Server
	tls            *tlsPort
	pusher         *push.Pusher // nil = metrics are not pushed
	ports          []*sidePort
	drainSocket    *drainSocket  // nil unless it listens
	leaveRequested chan struct{} // closed by Leave
}

// ErrSystem marks errors of New that the configuration has not caused.
var ErrSystem = errors.New("refused by the system")

// New builds the parts of a gate. Call Listen afterwards to start the gate. The set s may
// contain inherited sockets. If a running gate has sent them, the parameter predecessor
// is that gate, otherwise nil.
func New(cfg *config.Config, build metrics.Build, ownLog *Log, s *sockets.Set, predecessor *Predecessor) (*App, error) {
	followMemoryLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	log := ownLog.Logger
	a := &App{build: build, log: log, often: limited(log), lines: ownLog.lines, leaveRequested: make(chan struct{}), sockets: s, predecessor: predecessor}
	a.handover.init(a)
	a.live = newLiveSettings(cfg, log)
	cfg = a.live.start()
	a.cfg = cfg
	specs, err := probeSpecs(cfg)
	if err != nil {
		return nil, err
	}
	session, err := upstreamTLS(cfg)
	if err != nil {
		return nil, err
	}
	a.gate = &exchange.Gate{Config: cfg.Gate}
	a.gate.Admission = a.gate.NewAdmission()
	counts := newCounts()
	a.status = newStatus(cfg, specs, a.gate.Admission, counts)
	a.readiness = newReadiness(cfg, specs, a.status, log)
	a.readiness.isBrief = ownLog.terminal != nil
	a.readiness.draining = func() bool { return a.gate.Drain.Active() }
	ends := newEndLog(a.often)
	if t := ownLog.terminal; t != nil && t.hasRequests {
		ends.terminal, ends.all = t, log
	}
	if a.exporters, err = newExporters(cfg, ownLog.terminal, a.resource(), a.often); err != nil {
		return nil, err
	}
	a.observer = newObserver(cfg, counts, a.status, a.exporters, ends)
	a.engine = newEngine(cfg, a.gate, log)
	a.gate.Readiness, a.gate.Contact, a.gate.Observer = a.engine.readiness(cfg, a.readiness.probes), a.readiness, a.observer
	a.gate.States = newStateLog(log)
	if cfg.IdleStop > 0 {
		a.idle = newIdle(a)
	}
	if err := a.gate.Init(); err != nil {
		return nil, err
	}
	a.readiness.notifyProbed(func(took time.Duration) { a.gate.AddCheck(server.Clock(), took) })
	if err := a.buildServer(session); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSystem, err)
	}
	if a.tls, err = newTLSPort(cfg, a, log); err != nil {
		return nil, err
	}
	a.tls.isOptional = ownLog.terminal != nil && !cfg.IsSet("CERT_DIR")
	return a, a.buildPorts()
}

// ListenForTraffic opens the serving port early. Connections wait in its backlog until
// Listen.
func ListenForTraffic(cfg *config.Config, s *sockets.Set) (*net.TCPListener, error) {
	return s.Listen("QUEUE_SERVING_PORT", cfg.ListenAddress, cfg.ServingPort)
}

// Listen starts probing the container and opens the ports. The serving port is the last
// to accept connections, so that the other ports are open by then. The parameter traffic
// is the listener that ListenForTraffic has returned, or nil if it was not called.
func (a *App) Listen(traffic *net.TCPListener) (err error) {
	a.readiness.start()
	a.engine.start()
	a.live.follow(a.apply)
	a.sockets.CloseUnused(a.isOn)
	for _, p := range a.ports {
		if err := p.open(a.sockets); err != nil {
			return err
		}
	}
	if a.drainSocket, err = a.openDrainSocket(); err != nil {
		return err
	}
	// If the TLS port is not inherited, open it here, because this can fail: the running
	// gate still accepts, so it can continue after a failure. An inherited TLS socket is
	// open already, but the running gate still uses it. So this gate accepts from it only
	// after the running gate has stopped accepting.
	isTLSInherited := a.sockets.IsInherited(sockets.TLS)
	if !isTLSInherited {
		if err := a.tls.start(); err != nil {
			return err
		}
	}
	if traffic == nil {
		if traffic, err = ListenForTraffic(a.cfg, a.sockets); err != nil {
			return err
		}
	}
	if err := a.takeOver(); err != nil {
		return err
	}
	if isTLSInherited {
		if err := a.tls.start(); err != nil {
			return err
		}
	}
	if err := a.serve(sockets.Serving, traffic, nil); err != nil {
		return err
	}
	a.drainSocket.start(a.gate.Drain)
	time.AfterFunc(startTime, boundGarbage) // later, because it stops the world
	releaseStartMemory(func() bool { return a.observer.counting.LastWindow(server.Clock()).Arrivals > 0 })
	return nil
}

// isOn reports whether the port of the setting is enabled.
func (a *App) isOn(setting string) bool {
	switch setting {
	case "QUEUE_SERVING_PORT":
		return true
	case "QUEUE_SERVING_TLS_PORT":
		return a.cfg.ServingTLSPort != 0
	case "DRAIN_SOCKET":
		return a.cfg.DrainSocket != ""
	}
	return slices.ContainsFunc(a.ports, func(p *sidePort) bool { return p.setting == setting && p.port != 0 })
}

// serve serves a listener on the event loops. port is nil for plaintext.
func (a *App) serve(name string, ln *net.TCPListener, port *server.TLS) error {
	if a.sockets.IsStored(name) {
		return a.server.ServeShared(ln, port)
	}
	return a.server.ServeTLS(ln, port)
}

// apply applies the live settings of cfg, all or none.
func (a *App) apply(cfg *config.Config) error {
	next, err := a.exporters.requestLog(cfg)
	if err != nil {
		return err
	}
	if err := a.gate.Apply(&cfg.Gate); err != nil {
		return err
	}
	a.engine.apply(cfg)
	next()
	return nil
}

// Drain starts the drain. Further calls have no effect.
func (a *App) Drain() { a.gate.Drain.Start() }

// Draining returns a channel that is closed when a drain begins.
func (a *App) Draining() <-chan struct{} { return a.gate.Drain.Started() }

// Served returns a channel that is closed during a drain when no request is in
// progress, except tunnels. The container may end then.
func (a *App) Served() <-chan struct{} { return a.gate.Drain.Served() }

// Open returns the numbers of open requests and tunnels.
func (a *App) Open() (requests, tunnels int64) {
	return a.gate.Drain.Requests(), a.gate.Drain.Tunnels()
}

// Leave starts a drain because the container has ended. Run then skips the quiet period
// of the drain, and the requests in the connect queue end. Leave must not be called
// twice.
func (a *App) Leave() {
	a.gate.Drain.Start()
	a.gate.Connects.End()
	close(a.leaveRequested)
}

// Reload reloads the certificates.
func (a *App) Reload() { a.tls.reload() }

// Run returns nil when a drain is complete, or an error when ctx ends.
func (a *App) Run(ctx context.Context) error {
	select {
	case <-a.gate.Drain.Started():
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	if a.gate.Drain.HandedOver() {
		return a.handover.finish(ctx)
	}
	select {
	case <-a.gate.Drain.Quiet():
		if requests, tunnels := a.Open(); requests+tunnels > 0 {
			a.log.Info("the quiet period is over; waiting for open requests and tunnels",
				zap.Duration("waited", rounded(time.Since(began))), zap.Int64("requests", requests), zap.Int64("tunnels", tunnels))
		}
	case <-a.leaveRequested:
	case <-ctx.Done():
		return ctx.Err()
	}
	a.sockets.Close() // first, because an open descriptor would keep a socket listening
	a.tls.close()
	return a.server.Shutdown(ctx)
}

// Close releases all resources. It delivers queued log lines and telemetry until ctx
// ends.
func (a *App) Close(ctx context.Context) {
	a.gate.Drain.End()
	a.live.close()
	a.drainSocket.close()
	a.closePorts(ctx)
	a.readiness.close()
	a.engine.close()
	if err := a.exporters.close(ctx, a.pusher); err != nil {
		a.log.Warn("some queued logs, metrics or spans were not delivered", zap.Error(err))
	}
	_ = a.often.Sync() // write the pending counts of repeated messages
}
