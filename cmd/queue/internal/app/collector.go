package app

import (
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics"
)

func identity(cfg *config.Config) metrics.Identity {
	return metrics.Identity{
		Namespace:     cfg.Namespace,
		Service:       cfg.Service,
		Configuration: cfg.Configuration,
		Revision:      cfg.Revision,
		Pod:           cfg.Pod,
	}
}

// collector shows the figures of all parts.
func (p *App) collector() (*metrics.Collector, error) {
	names, err := metrics.ParseNames(p.cfg.MetricsNames)
	if err != nil {
		return nil, err
	}
	return metrics.NewCollector(metrics.CollectorConfig{
		Names:     names,
		Identity:  identity(p.cfg),
		Build:     p.build,
		Requests:  p.seen.requests,
		Readiness: p.ready.figures,
		Admission: func() metrics.Admission { return admissionOf(p.gate) },
		Upstream:  p.upstreamFigures,
		HTTP2:     p.http2Figures,
		TLS:       p.tlsFigures,
		Dropped: func() metrics.Dropped {
			return metrics.Dropped{LogLines: p.seen.log.Dropped(), Spans: p.seen.tracer.Dropped()}
		},
	}), nil
}

// upstreamFigures adds up the connections of both engines.
func (p *App) upstreamFigures() metrics.Upstream {
	u := metrics.Upstream(p.server.Stats())
	h := p.streams.Stats().Upstream
	u.Open += h.Open
	u.Dials += h.Dials
	u.Reuses += h.Reuses
	u.Replays += h.Replays
	return u
}

func (p *App) http2Figures() metrics.HTTP2 {
	s := p.streams.Stats()
	return metrics.HTTP2{Connections: s.Connections, Faults: s.Errors}
}

func (p *App) tlsFigures() metrics.TLS {
	s := p.secure.stats()
	return metrics.TLS{
		CertificateEnd: s.NotAfter, Loads: s.Reloads, FailedLoads: s.ReloadFailures,
		Handshakes: s.Handshakes, FailedHandshakes: s.HandshakeFailures,
	}
}
