package app

import (
	"github.com/queuegate/queuegate/pkg/gate"
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
		Upstream:  a.upstreamFigures,
		HTTP2:     a.http2Figures,
		TLS:       a.tls.stats,
		Dropped: func() metrics.Dropped {
			return metrics.Dropped{
				RequestLines: a.exporters.log.Dropped(), GateLines: a.lines.Dropped(), Spans: a.exporters.tracer.Dropped(),
			}
		},
	}), nil
}

// upstreamFigures adds up the connections of both engines.
func (a *App) upstreamFigures() gate.UpstreamStats {
	u := a.http1.Stats()
	if a.http2 != nil {
		u.Add(a.http2.Stats().Upstream.UpstreamStats)
	}
	return u
}

func (a *App) http2Figures() gate.HTTP2Stats {
	if a.http2 != nil {
		return a.http2.Stats().HTTP2Stats
	}
	return a.http2Stats.HTTP2()
}
