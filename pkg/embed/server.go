package embed

import "github.com/queuegate/queuegate/pkg/gate"

// Core is what the gate shares with the sidecar. With NewLife it is for packages
// that put the gate in front of a server other than net/http's, as pkg/embed/fast
// does.
func (g *Gate) Core() *gate.Gate { return g.gate }

// NewLife makes the life of a request, for a caller that keeps it for one request
// after the other, with Describe between them.
func (g *Gate) NewLife() *gate.Blocking { return gate.NewBlocking(g.gate, g.clock) }

// CountsAll reports whether there are no Config.Uncounted.
func (g *Gate) CountsAll() bool { return len(g.cfg.Uncounted) == 0 }

// Count says before Arrive whether the request of a decoded path counts: not if
// it is one of Config.Uncounted. It reports the same.
func (g *Gate) Count(life *gate.Blocking, path []byte) bool {
	for _, name := range g.cfg.Uncounted {
		if name == string(path) {
			life.Context = uncounted{}
			return false
		}
	}
	return true
}
