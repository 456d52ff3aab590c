package http1

import (
	"context"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (w *worker) probe(kind gate.Kind, c gate.Caller) bool {
	keep := w.skipBody() && w.req.KeepAlive()
	if w.gate.Observer != nil {
		w.describe()
	}
	a, ok := w.gate.ReplyToProbe(kind, c, w.conn.peer.Addr(), &w.req.Probe, func() (gate.ReadinessResult, bool) { return w.waitReady(c) })
	if !ok {
		w.conn.close()
		return false
	}
	if o := w.gate.Observer; o != nil {
		x := &w.exchange
		x.Outcome, x.Status, x.ResponseBody = a.Outcome, a.Status, int64(a.Length())
		w.stamp(&x.Ended)
		o.Probed(x) // before the answer: what follows may overwrite the head
	}
	return w.answer(&a, keep)
}

// pendingResult is a readiness result on its way.
type pendingResult struct {
	result gate.ReadinessResult
	ok     bool
	done   atomic.Bool
}

// waitReady waits for the readiness result away from the loop. It is false when
// the client has left meanwhile.
func (w *worker) waitReady(c gate.Caller) (gate.ReadinessResult, bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := &pendingResult{}
	go p.wait(ctx, w.gate, c, w.task.Wake)
	for !p.done.Load() {
		if w.conn.gone() || w.eng.loop.Closing() {
			return gate.ReadinessResult{}, false
		}
		w.task.Wait(0)
	}
	return p.result, p.ok
}

func (p *pendingResult) wait(ctx context.Context, g *gate.Gate, c gate.Caller, wake func()) {
	p.result, p.ok = g.WaitReady(ctx, c)
	p.done.Store(true)
	wake()
}
