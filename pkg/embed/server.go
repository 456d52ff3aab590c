package embed

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/metrics"
)

// Core is what the gate shares with the sidecar. With NewExchange it is for packages
// that put the gate in front of a server other than net/http's, as pkg/embed/fast
// does.
func (g *Gate) Core() *exchange.Gate { return g.gate }

// NewExchange makes the life of a request, for a caller that keeps it for one request
// after the other, with Describe between them.
func (g *Gate) NewExchange() *exchange.Blocking { return exchange.NewBlocking(g.gate, g.clock) }

// CountsAll reports whether there are no Config.Uncounted.
func (g *Gate) CountsAll() bool { return len(g.cfg.Uncounted) == 0 }

// Count says before Arrive whether the request of a decoded path counts: not if
// it is one of Config.Uncounted. It reports the same.
func (g *Gate) Count(life *exchange.Blocking, path []byte) bool {
	for _, name := range g.cfg.Uncounted {
		if name == string(path) {
			life.Context = uncounted{}
			return false
		}
	}
	return true
}

// Observed is what a page that shows the gate takes its figures from.
type Observed struct {
	Clock    func() time.Duration // that requests are counted on
	Counting *metrics.Counting
	Requests *metrics.Requests
	Identity Identity
	Build    metrics.Build
}

// Observed is for packages that show the gate, as pkg/embed/status does.
func (g *Gate) Observed() Observed {
	return Observed{g.now, &g.counting, g.requests, g.cfg.Identity, build()}
}

// Watcher is called for every request that counts, after it has been counted, by
// several goroutines at once.
type Watcher struct {
	Begun func()
	Ended func(*gate.Record) // valid during the call only
}

// Watch makes w the gate's watcher, in the place of the one before.
func (g *Gate) Watch(w *Watcher) { g.watcher.Store(w) }
