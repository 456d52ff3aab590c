package embed

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Gate admits and counts the requests of a server. Create it with New; it needs no
// Close.
type Gate struct {
	cfg       Config
	gate      *exchange.Gate
	counting  metrics.Counting
	requests  *metrics.Requests
	exchanges sync.Pool // of *exchange.Blocking, initialized
	page      *metrics.Collector
	born      time.Time
	clock     func() int64 // now, for exchanges

	watcher atomic.Pointer[Watcher] // nil = none
	arrived atomic.Int64            // time of the last arrival, on the gate's clock, or of the beginning of the drain; 0 = none
	ended   chan struct{}           // capacity 1: a request has ended, for the drain
}

// New creates a gate. The error lists all problems of c, each with its field and value.
func New(c Config) (*Gate, error) {
	names, err := c.check()
	if err != nil {
		return nil, err
	}
	c.complete()
	g := &Gate{cfg: c, born: time.Now(), ended: make(chan struct{}, 1)}
	g.gate = &exchange.Gate{Config: c.shared()}
	g.gate.Observer = (*observer)(g)
	if c.Ready != nil {
		g.gate.Readiness = &readiness{check: c.Ready}
	}
	if err := g.gate.Init(); err != nil {
		return nil, fmt.Errorf("making the gate: %w", err)
	}
	g.clock = func() int64 { return int64(g.now()) }
	g.exchanges.New = func() any { return g.NewExchange() }
	g.requests = metrics.NewRequests()
	g.page = metrics.NewCollector(metrics.CollectorConfig{
		Names: names, Identity: c.Identity, Build: build(), Requests: g.requests, Admission: g.gate.AdmissionStats,
	})
	return g, nil
}

// InFlight returns the number of slots held, including hijacked connections.
func (g *Gate) InFlight() int { return g.gate.Admission.InFlight() }

// QueueDepth returns the number of queued requests.
func (g *Gate) QueueDepth() int { return g.gate.Admission.QueueDepth() }

// Stats serves /metrics to Knative's autoscaler, like the sidecar on port 9090: average
// concurrency and arrivals of the last full second, as protobuf, or as text if the
// scraper asks for it. Other paths get 404.
func (g *Gate) Stats() http.Handler {
	return metrics.StatHandler(g.cfg.Identity, &g.counting, g.now)
}

// Metrics serves /metrics to Prometheus, like the sidecar on port 9091: metrics of the
// gate, the Go runtime and the process. Other paths get 404.
func (g *Gate) Metrics() http.Handler { return metrics.PageHandler(g.page, nil) }

// Collector returns the gate's own metrics, for a registry of the program.
func (g *Gate) Collector() prometheus.Collector { return g.page }

// getExchange returns an exchange with an empty Record.
func (g *Gate) getExchange() *exchange.Blocking { return g.exchanges.Get().(*exchange.Blocking) }

// putExchange returns an exchange that has ended to the pool.
func (g *Gate) putExchange(life *exchange.Blocking) {
	life.Reset()
	g.exchanges.Put(life)
}

// now is the gate's clock: monotonic, above 0, starting when New was called.
func (g *Gate) now() time.Duration { return max(time.Since(g.born), 1) }

const modulePath = "github.com/queuegate/queuegate"

// build returns the version of this module in the program.
func build() metrics.Build {
	b := metrics.Build{Version: "development", Commit: "unknown", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			b.Version = m.Version
		}
	}
	return b
}
