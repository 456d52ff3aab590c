package http1

import (
	"context"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (w *worker) probe(kind gate.Kind, who gate.Asker) bool {
	keep := w.skipBody() && w.req.KeepAlive()
	if w.gate.Observer != nil {
		w.describe()
	}
	a, ok := w.gate.ReplyToProbe(kind, &w.req.Probe, func() (gate.Answer, bool) { return w.askReadiness(who) })
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

// question is a readiness answer on its way.
type question struct {
	answer gate.Answer
	done   atomic.Bool
}

// askReadiness asks, away from the loop if the answer takes its time. It is
// false when the client has left meanwhile.
func (w *worker) askReadiness(who gate.Asker) (gate.Answer, bool) {
	if answer, settled := w.gate.Readiness.Try(who); settled {
		return answer, true
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q := &question{}
	go q.ask(ctx, w.gate, who, w.task.Wake)
	for !q.done.Load() {
		if w.conn.gone() || w.eng.loop.Closing() {
			return gate.Answer{}, false
		}
		w.task.Wait(0)
	}
	return q.answer, true
}

func (q *question) ask(ctx context.Context, g *gate.Gate, who gate.Asker, wake func()) {
	q.answer = g.Ask(ctx, who)
	q.done.Store(true)
	wake()
}
