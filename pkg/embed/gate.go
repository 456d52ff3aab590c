package embed

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Gate admits and counts the requests of a server. Create it with New. It needs no
// Close.
type Gate core.Gate

// New creates a gate. The error lists all problems of c with their field names.
func New(c Config) (*Gate, error) {
	parts, err := c.check()
	if err != nil {
		return nil, err
	}
	var ready func(*core.State) gate.Readiness
	if c.Ready != nil {
		ready = func(s *core.State) gate.Readiness {
			took := func(d time.Duration) { s.Gate.AddCheck(s.Now(), d) }
			return &readiness{check: c.Ready, took: took, log: c.Logger}
		}
	}
	s, err := core.New(parts, ready)
	if err != nil {
		return nil, fmt.Errorf("making the gate: %w", err)
	}
	if c.Logger != nil {
		logDrain(c.Logger, s)
	}
	return (*Gate)(core.NewGate(s)), nil
}

func (g *Gate) state() *core.State { return (*core.Gate)(g).State() }

// InFlight returns the number of slots held, including hijacked connections.
func (g *Gate) InFlight() int { return g.state().Gate.Admission.InFlight() }

// QueueDepth returns the number of queued requests.
func (g *Gate) QueueDepth() int { return g.state().Gate.Admission.QueueDepth() }

// Limit returns the concurrency limit in force; 0 = unlimited.
func (g *Gate) Limit() int { return g.state().Gate.Admission.Limit() }

// Stats serves /metrics to Knative's autoscaler, like the sidecar on port 9090: average
// concurrency and arrivals of the last full second, as protobuf or text. Other paths
// get 404.
func (g *Gate) Stats() http.Handler {
	s := g.state()
	return metrics.StatHandler(s.Identity, &s.Counting, s.Now)
}

// Metrics serves /metrics to Prometheus, like the sidecar on port 9091: metrics of the
// gate, the Go runtime and the process. Other paths get 404.
func (g *Gate) Metrics() http.Handler { return metrics.PageHandler(g.state().Page, nil) }

// Collector returns the gate's own metrics, for a registry of the program.
func (g *Gate) Collector() prometheus.Collector { return g.state().Page }
