package embed

import (
	"slices"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Core is what the gate shares with the sidecar. With Borrow and GiveBack it is
// for packages that put the gate in front of a server other than net/http's, as
// pkg/embed/fast does.
func (g *Gate) Core() *gate.Gate { return g.gate }

// Borrow returns the life of a request, for its head to be filled in.
func (g *Gate) Borrow() *gate.Blocking { return g.borrow() }

// GiveBack takes a life that has ended, and forgets what the request was.
func (g *Gate) GiveBack(life *gate.Blocking) { g.giveBack(life) }

// Count says before Arrive whether the request of a decoded path counts: not if
// it is one of Config.Uncounted. It reports the same.
func (g *Gate) Count(life *gate.Blocking, path []byte) bool {
	if len(g.cfg.Uncounted) == 0 || !slices.Contains(g.cfg.Uncounted, string(path)) {
		return true
	}
	life.Context = uncounted{}
	return false
}
