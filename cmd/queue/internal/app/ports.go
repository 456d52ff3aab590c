package app

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// sidePort is a port other than the serving port. It uses net/http, which has no periodic
// timers, so that an idle process sleeps.
type sidePort struct {
	setting string
	address string
	port    int // 0 = off
	log     *zap.Logger
	server  *http.Server
	conns   *sideConns
}

func (a *App) addPort(setting, address string, port int, h http.Handler) *sidePort {
	p := &sidePort{setting: setting, address: address, port: port, log: a.log, server: &http.Server{
		Handler:           noteServing(h),
		ConnContext:       withSideConn,
		ReadHeaderTimeout: sideHeadTimeout,
		IdleTimeout:       sideIdleTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // errors of callers are not logged
	}, conns: newSideConns(a.gate.Descriptors)}
	a.ports = append(a.ports, p)
	return p
}

func (p *sidePort) open(s *sockets.Set) error {
	if p.port == 0 {
		return nil
	}
	ln, err := s.Listen(p.setting, p.address, p.port)
	if err != nil {
		return err
	}
	go p.serve(ln)
	return nil
}

func (p *sidePort) serve(ln net.Listener) {
	if err := p.server.Serve(&sideListener{ln, p.conns}); !errors.Is(err, http.ErrServerClosed) {
		p.log.Error("a side port failed", zap.String("setting", p.setting), zap.Error(err))
	}
}

// closePorts closes the side ports after their current calls.
func (a *App) closePorts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	for _, p := range a.ports {
		_ = p.server.Shutdown(ctx)
	}
}

// buildPorts builds the side ports and the pusher of metrics.
func (a *App) buildPorts() error {
	cfg := a.cfg
	admin, err := newAdmin(cfg, a.gate.Drain, a.readiness, a.log)
	if err != nil {
		return err
	}
	admin.idle = a.idle
	a.addPort("ADMIN_PORT", cfg.ListenAddress, cfg.AdminPort, http.HandlerFunc(admin.handle))
	a.addPort("APP_PROBE_PORT", cfg.ListenAddress, cfg.AppProbePort, http.HandlerFunc(admin.handleAppProbe))
	stats := metrics.StatHandler(cfg.Identity, a.observer.counting, server.Clock)
	a.addPort("AUTOSCALER_METRICS_PORT", cfg.ListenAddress, cfg.AutoscalerMetricsPort, stats).server.WriteTimeout = sideWriteTimeout
	if cfg.Profiling {
		a.addPort("PROFILING_PORT", cfg.ProfilingAddress, cfg.ProfilingPort, profiles())
	}
	if a.status != nil {
		page := a.statusPage()
		// The page's event streams end only when the page is closed.
		a.addPort("STATUS_PORT", statusAddress, cfg.StatusPort, page).server.RegisterOnShutdown(page.Close)
	}
	return a.buildMetrics()
}

// buildMetrics exports the metrics to Prometheus, or pushes them.
func (a *App) buildMetrics() error {
	_, backend := a.cfg.Exporters()
	if backend == "none" {
		return nil
	}
	figures, err := a.collector()
	if err != nil {
		return err
	}
	if backend == otlp.ProtocolGRPC || backend == otlp.ProtocolHTTP {
		a.pusher, err = newPusher(a.cfg, a.resource(), figures, a.often)
		return err
	}
	failed := func(err error) { a.often.Warn("a scrape failed", zap.Error(err)) }
	a.addPort("METRICS_PORT", a.cfg.MetricsAddress, a.cfg.MetricsPort, metrics.PageHandler(figures, failed)).server.WriteTimeout = sideWriteTimeout
	return nil
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// collector collects the metrics of all parts.
func (a *App) collector() (*metrics.Collector, error) {
	names, err := metrics.ParseNames(a.cfg.MetricsNames)
	if err != nil {
		return nil, err
	}
	target := map[string]string{}
	for _, attribute := range a.cfg.OTel.ResourceAttributes {
		target[attribute.Key] = attribute.Value // the last attribute with the same key applies
	}
	return metrics.NewCollector(metrics.CollectorConfig{
		Names:     names,
		Identity:  a.cfg.Identity,
		Target:    target,
		Build:     a.build,
		Requests:  a.observer.requests,
		Readiness: a.readiness.figures,
		Admission: a.gate.AdmissionStats,
		Upstream:  a.server.Stats,
		HTTP2:     a.http2.Stats,
		TLS:       a.tls.stats,
		Settings:  a.live.stats,
		Engine:    a.engine.stats(),
		Dropped: func() metrics.Dropped {
			return metrics.Dropped{
				RequestLines: a.exporters.written.Load().Dropped(), GateLines: a.lines.Dropped(), Spans: a.exporters.tracer.Dropped(),
			}
		},
	}), nil
}
