package app

import (
	"github.com/queuegate/queuegate/pkg/metrics"
)

// collector shows the figures of all parts.
func (a *App) collector() (*metrics.Collector, error) {
	names, err := metrics.ParseNames(a.cfg.MetricsNames)
	if err != nil {
		return nil, err
	}
	return metrics.NewCollector(metrics.CollectorConfig{
		Names:     names,
		Identity:  a.cfg.Identity,
		Build:     a.build,
		Requests:  a.observer.requests,
		Readiness: a.readiness.figures,
		Admission: a.gate.Admission.Stats,
		Upstream:  a.server.Stats,
		HTTP2:     a.http2.Stats,
		TLS:       a.tls.stats,
		Dropped: func() metrics.Dropped {
			return metrics.Dropped{
				RequestLines: a.exporters.log.Dropped(), GateLines: a.lines.Dropped(), Spans: a.exporters.tracer.Dropped(),
			}
		},
	}), nil
}
