package core

import "github.com/queuegate/queuegate/pkg/gate"

// observer implements gate.Observer for a State: it counts requests for metrics and for
// the drain.
type observer State

// Begin implements gate.Observer.
func (o *observer) Begin(x *gate.Record) {
	if o.Gate.Drain.Active() {
		o.arrived.Store(int64(x.Arrived))
	}
	if _, isUncounted := x.Context.(uncounted); !isUncounted {
		o.Counting.Begin(x.Arrived, x.Proxied)
		if w := o.watcher.Load(); w != nil {
			w.RequestBegan()
		}
	}
}

// End implements gate.Observer.
func (o *observer) End(x *gate.Record) {
	(*State)(o).NotifyDrain()
	if _, isUncounted := x.Context.(uncounted); !isUncounted {
		o.Counting.End(x.Ended, x.Proxied)
		o.Requests.Observe(x, gate.TraceID{})
		if w := o.watcher.Load(); w != nil {
			w.RequestEnded(x)
		}
		if o.RequestEnded != nil {
			o.RequestEnded(x)
		}
	}
}

// Rejected implements gate.Observer. The HTTP server rejects invalid heads, so it is
// never called.
func (o *observer) Rejected(gate.Outcome) {}

// Probed implements gate.Observer.
func (o *observer) Probed(*gate.Record) {}
