package exchange

import (
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Arrival holds the properties of a request that determine its classification.
type Arrival struct {
	Peer      netip.Addr
	Probe     gate.ProbeHeaders
	Asterisk  bool // the request is OPTIONS *
	Encrypted bool // received over TLS
}

// Screening is the classification of a request.
type Screening struct {
	Kind     gate.Kind // Traffic is served by an exchange; all other kinds are probes
	Prober   gate.Prober
	Trusted  bool         // forwarding and probe fields of the peer are accepted
	Self     bool         // the gate responds to OPTIONS * itself
	Rejected bool         // reject with Outcome; does not count as a request
	Outcome  gate.Outcome // valid if Rejected
}

// Screen classifies a request. A probe from an untrusted peer is traffic.
func (g *Gate) Screen(a *Arrival) (s Screening) {
	s.Trusted = g.Trusts(a.Peer)
	switch {
	case a.Asterisk:
		s.Self = true
		return s
	case s.Trusted:
		if s.Kind, s.Prober = gate.Classify(a.Probe); s.Kind != gate.Traffic {
			return s
		}
	}
	if g.TLSOnly && !a.Encrypted {
		s.Rejected, s.Outcome = true, gate.PlaintextRejected
	}
	return s
}

// observeProbe notifies the observer of a probe and its reply.
func (g *Gate) observeProbe(x *gate.Record, r *gate.Reply, clock func() int64) {
	if o := g.Observer; o != nil {
		x.Outcome, x.Status, x.ResponseBody = r.Outcome, r.Status, int64(r.Length())
		x.Ended = time.Duration(clock())
		o.Probed(x)
	}
}

// Reject notifies the observer of a request that was rejected before Begin.
func (g *Gate) Reject(o gate.Outcome) {
	if obs := g.Observer; obs != nil {
		obs.Rejected(o)
	}
}
