package app

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// collector shows the figures of all parts.
func (p *App) collector() (*metrics.Collector, error) {
	names, err := metrics.ParseNames(p.cfg.MetricsNames)
	if err != nil {
		return nil, err
	}
	return metrics.NewCollector(metrics.CollectorConfig{
		Names:     names,
		Identity:  p.cfg.Identity,
		Build:     p.build,
		Requests:  p.seen.requests,
		Readiness: p.ready.figures,
		Admission: p.gate.Admission.Stats,
		Upstream:  p.upstreamFigures,
		HTTP2:     func() gate.HTTP2Stats { return p.streams.Stats().HTTP2Stats },
		TLS:       p.secure.stats,
		Dropped: func() metrics.Dropped {
			return metrics.Dropped{LogLines: p.seen.log.Dropped(), Spans: p.seen.tracer.Dropped()}
		},
	}), nil
}

// upstreamFigures adds up the connections of both engines.
func (p *App) upstreamFigures() gate.UpstreamStats {
	u := p.server.Stats()
	u.Add(p.streams.Stats().Upstream.UpstreamStats)
	return u
}
