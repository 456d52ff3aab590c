package embed

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Core returns the part of the gate that is shared with the sidecar. Together with
// NewExchange it is for packages that put the gate in front of other servers than
// net/http's, such as package fast.
func (g *Gate) Core() *exchange.Gate { return g.gate }

// NewExchange returns an exchange that the caller may reuse for consecutive requests,
// with Reset between them.
func (g *Gate) NewExchange() *exchange.Blocking { return exchange.NewBlocking(g.gate, g.clock) }

// CountsAll reports whether Config.Uncounted is empty.
func (g *Gate) CountsAll() bool { return len(g.cfg.Uncounted) == 0 }

// Count decides before Arrive whether the request with a decoded path counts, by
// Config.Uncounted, and reports it.
func (g *Gate) Count(life *exchange.Blocking, path []byte) bool {
	for _, name := range g.cfg.Uncounted {
		if name == string(path) {
			life.Context = uncounted{}
			return false
		}
	}
	return true
}

// Observed holds the sources of a page that shows the gate.
type Observed struct {
	Clock    func() time.Duration // clock that requests are counted on
	Counting *metrics.Counting
	Requests *metrics.Requests
	Identity Identity
	Build    metrics.Build
}

// Observed returns the sources for packages that show the gate, such as package status.
func (g *Gate) Observed() Observed {
	return Observed{g.now, &g.counting, g.requests, g.cfg.Identity, build()}
}

// Watcher is called for each request that counts, after it has been counted,
// concurrently.
type Watcher struct {
	Begun func()
	Ended func(*gate.Record) // valid only during the call
}

// Watch replaces the gate's watcher by w.
func (g *Gate) Watch(w *Watcher) { g.watcher.Store(w) }
