package embed

import "github.com/queuegate/queuegate/pkg/gate"

// observer is the Gate as the gate.Observer of its requests, for metrics and the drain.
type observer Gate

// Begin implements gate.Observer.
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

// End implements gate.Observer.
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

// Rejected implements gate.Observer. It is never called, because net/http rejects
// invalid heads.
func (o *observer) Rejected(gate.Outcome) {}

// Probed implements gate.Observer.
func (o *observer) Probed(*gate.Record) {}
