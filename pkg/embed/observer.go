package embed

import "github.com/queuegate/queuegate/pkg/gate"

// observer is the Gate as what observes its requests, for its figures and for
// the drain.
type observer Gate

// Begin is gate.Observer.
func (o *observer) Begin(x *gate.Record) {
	if o.gate.Drain.Active() {
		o.arrived.Store(int64(x.Arrived))
	}
	if _, left := x.Context.(uncounted); !left {
		o.counting.Begin(x.Arrived, x.Proxied)
		if w := o.watcher.Load(); w != nil {
			w.Begun()
		}
	}
}

// End is gate.Observer.
func (o *observer) End(x *gate.Record) {
	(*Gate)(o).notifyDrain()
	if _, left := x.Context.(uncounted); !left {
		o.counting.End(x.Ended, x.Proxied)
		o.requests.Observe(x, gate.TraceID{})
		if w := o.watcher.Load(); w != nil {
			w.Ended(x)
		}
	}
}

// Rejected is gate.Observer. What never becomes a request never comes here.
func (o *observer) Rejected(gate.Outcome) {}

// Probed is gate.Observer.
func (o *observer) Probed(*gate.Record) {}
