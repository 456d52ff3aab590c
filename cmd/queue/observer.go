package main

import (
	"bytes"
	"runtime"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// observer hands what the request path tells to pkg/metrics.
type observer struct {
	counting  *metrics.Counting
	requests  *metrics.Requests
	uncounted [][]byte // paths, exactly
}

// uncounted marks an exchange that is left out. A byte in an interface costs
// no allocation.
const uncounted = metrics.RouteTag(255)

func newObserver(cfg *Config) *observer {
	outcomes := gate.Outcomes()
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = o.String()
	}
	o := &observer{counting: new(metrics.Counting), requests: metrics.NewRequests(names)}
	for _, path := range cfg.UncountedPaths {
		o.uncounted = append(o.uncounted, []byte(path))
	}
	return o
}

// Begin is called on the engine's loops.
func (o *observer) Begin(x *gate.Exchange) {
	if len(o.uncounted) > 0 && o.leavesOut(x.Target) {
		x.Context = uncounted
		return
	}
	x.Context = o.requests.Tag(x.RouteTag, x.DefaultRoute, x.HasDefaultRoute)
	o.counting.Begin(x.Arrived, x.Proxied)
}

// End is called on the engine's loops.
func (o *observer) End(x *gate.Exchange) {
	tag := x.Context.(metrics.RouteTag)
	if tag == uncounted {
		return
	}
	o.counting.End(x.Ended, x.Proxied)
	r := metrics.Record{
		Status:        x.Status,
		Outcome:       uint8(x.Outcome),
		Route:         tag,
		Proxied:       x.Proxied,
		Reached:       x.Forwarded != 0,
		Queued:        x.Ended - x.Arrived,
		Total:         x.Ended - x.Arrived,
		RequestBytes:  x.RequestBody,
		ResponseBytes: x.ResponseBody,
	}
	if x.Admitted != 0 {
		r.Queued = x.Admitted - x.Arrived
	}
	if r.Reached {
		r.Upstream = x.Ended - x.Forwarded
	}
	o.requests.Observe(&r)
}

// Rejected is called on the engine's loops.
func (o *observer) Rejected(outcome gate.Outcome) { o.requests.Rejected(uint8(outcome)) }

// Probed is called on the engine's loops.
func (o *observer) Probed(*gate.Exchange) {}

func (o *observer) leavesOut(target []byte) bool {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return slices.ContainsFunc(o.uncounted, func(p []byte) bool { return bytes.Equal(p, path) })
}

func identity(cfg *Config) metrics.Identity {
	return metrics.Identity{
		Namespace:     cfg.Namespace,
		Service:       cfg.Service,
		Configuration: cfg.Configuration,
		Revision:      cfg.Revision,
		Pod:           cfg.Pod,
	}
}

// collector shows the observer's figures and the state of gate and server.
func (o *observer) collector(cfg *Config, g *gate.Gate, server *http1.Server, ready *readiness) (*metrics.Collector, error) {
	names, err := metrics.ParseNames(cfg.MetricsNames)
	if err != nil {
		return nil, err
	}
	version, commit := buildIdentity()
	return metrics.NewCollector(metrics.CollectorConfig{
		Names:     names,
		Identity:  identity(cfg),
		Build:     metrics.Build{Version: version, Commit: commit, GoVersion: runtime.Version()},
		Requests:  o.requests,
		Readiness: ready.figures,
		Admission: func() metrics.Admission {
			a := g.Admission
			return metrics.Admission{
				InFlight: a.InFlight(), QueueDepth: a.QueueDepth(),
				QueueCapacity: a.Capacity(), ConcurrencyLimit: a.Limit(),
			}
		},
		Upstream: func() metrics.Upstream { return metrics.Upstream(server.Stats()) },
	}), nil
}
