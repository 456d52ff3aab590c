package app

import (
	"fmt"
	"net"
	"strconv"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// open opens all ports, the serving port last: who can reach it can reach the
// others.
func (p *App) open() error {
	if err := p.openSidePorts(); err != nil {
		return err
	}
	var err error
	if p.door, err = openDrainSocket(p.cfg, p.gate.Drain, p.log); err != nil {
		return err
	}
	if err := p.secure.start(); err != nil {
		return err
	}
	traffic, err := listen(p.cfg.ListenAddress, p.cfg.ServingPort, "QUEUE_SERVING_PORT")
	if err != nil {
		return err
	}
	return p.server.Serve(traffic)
}

// openSidePorts opens all ports beside the serving port that are not off.
func (p *App) openSidePorts() error {
	if err := p.openAdmin(); err != nil {
		return err
	}
	if err := p.openProfiling(); err != nil {
		return err
	}
	stats := metrics.StatHandler(p.cfg.Identity, p.seen.counting, http1.Clock)
	if err := p.side.open(p.cfg.ListenAddress, p.cfg.AutoscalerMetricsPort, "AUTOSCALER_METRICS_PORT", stats); err != nil {
		return err
	}
	if err := p.openStatus(); err != nil {
		return err
	}
	return p.openMetrics()
}

// openMetrics shows the figures to Prometheus, or sends them.
func (p *App) openMetrics() error {
	if p.cfg.MetricsBackend == "none" {
		return nil
	}
	page, err := p.collector()
	if err != nil {
		return err
	}
	if p.cfg.MetricsBackend == otlp.ProtocolGRPC || p.cfg.MetricsBackend == otlp.ProtocolHTTP {
		return p.seen.push(p.cfg, p.resource(), page, p.often)
	}
	failed := func(err error) { p.often.Warn("a scrape failed", zap.Error(err)) }
	return p.side.open(p.cfg.MetricsAddress, p.cfg.MetricsPort, "METRICS_PORT", metrics.PageHandler(page, failed))
}

// listen opens a port and says which setting chose it if that fails.
func listen(address string, port int, setting string) (*net.TCPListener, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening on port %d (%s): %w", port, setting, err)
	}
	return ln.(*net.TCPListener), nil
}
