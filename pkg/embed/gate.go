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

// Gate admits and counts the requests of one server. New makes it; it needs no
// Close.
type Gate struct {
	cfg       Config
	gate      *exchange.Gate
	counting  metrics.Counting
	requests  *metrics.Requests
	exchanges sync.Pool // of *exchange.Blocking, described
	page      *metrics.Collector
	born      time.Time
	clock     func() int64 // now, for lives

	watcher atomic.Pointer[Watcher] // nil = none
	arrived atomic.Int64            // last arrival, on the gate's clock, or the beginning of the drain; 0 = there is none
	ended   chan struct{}           // a token for the drain: something has ended
}

// New makes a gate. The error lists all problems of c, each with the field and
// its value.
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

// InFlight returns how many requests hold a slot now, hijacked connections
// included.
func (g *Gate) InFlight() int { return g.gate.Admission.InFlight() }

// QueueDepth returns how many requests wait for a slot now.
func (g *Gate) QueueDepth() int { return g.gate.Admission.QueueDepth() }

// Stats serves /metrics to Knative's autoscaler, as the sidecar does on port
// 9090: average concurrency and arrivals of the last full second, as protobuf,
// or as text for scrapers that ask for it. Any other path is 404.
func (g *Gate) Stats() http.Handler {
	return metrics.StatHandler(g.cfg.Identity, &g.counting, g.now)
}

// Metrics serves /metrics to Prometheus, as the sidecar does on port 9091: the
// gate's figures, the Go runtime and the process. Any other path is 404.
func (g *Gate) Metrics() http.Handler { return metrics.PageHandler(g.page, nil) }

// Collector is what Metrics shows of the gate itself, for a registry of the
// program's own.
func (g *Gate) Collector() prometheus.Collector { return g.page }

// getExchange returns the life of a request, for its head to be filled in.
func (g *Gate) getExchange() *exchange.Blocking { return g.exchanges.Get().(*exchange.Blocking) }

// putExchange takes a life that is over, and forgets what the request was.
func (g *Gate) putExchange(life *exchange.Blocking) {
	life.Reset()
	g.exchanges.Put(life)
}

// now is the gate's clock: monotonic, above 0, and 0 when New was called.
func (g *Gate) now() time.Duration { return max(time.Since(g.born), 1) }

const modulePath = "github.com/queuegate/queuegate"

// build is the version of this module in the program that embeds it.
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
