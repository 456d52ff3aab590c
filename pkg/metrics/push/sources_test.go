package push

import "github.com/prometheus/client_golang/prometheus"

// sources are metrics that a test changes.
type sources struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	depth    prometheus.Gauge
	duration *prometheus.HistogramVec
	took     prometheus.Summary
}

func newSources() *sources {
	s := &sources{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queuegate_request_outcomes_total", Help: "By outcome."}, []string{"outcome"}),
		depth:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "kn_serving_queue_depth", Help: "Waiting."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kn_serving_invocation_duration_seconds", Help: "How long.", Buckets: []float64{0.5, 1, 2}},
			[]string{"http_response_status_code", "otel_scope_name"}),
		took: prometheus.NewSummary(prometheus.SummaryOpts{Name: "took_seconds", Help: "A summary.", Objectives: map[float64]float64{0.5: 0.1}}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "target_info", Help: "Who."})
	s.registry.MustRegister(s.requests, s.depth, s.duration, s.took, info)
	return s
}
