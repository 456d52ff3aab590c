package http1

import (
	"context"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// probe answers a probe of the platform. Nothing of it is counted, and it
// needs no slot.
func (w *worker) probe(kind gate.Kind, who gate.Asker) bool {
	keep := w.skipBody() && w.req.keepAlive()
	a := replyTo(gate.ShuttingDown)
	if w.gate.Drain.Active() {
		return w.answer(&a, keep)
	}
	switch kind {
	case gate.NetworkProbe:
		a = reply{outcome: gate.Probed, status: 200, hash: w.req.probe.NetworkHash}
	case gate.HashlessProbe:
		a = replyTo(gate.ProbeRejected)
		a.body = `a probe request must contain a non-empty "K-Network-Hash" header`
	case gate.BadProbe:
		a = replyTo(gate.ProbeRejected)
		a.body = "unexpected probe header value: " + string(w.req.probe.NetworkProbe)
	case gate.ReadinessProbe:
		said, ok := w.askReadiness(who)
		if !ok {
			w.conn.close()
			return false
		}
		switch {
		case w.gate.Drain.Active():
		case said.Ready:
			a = reply{outcome: gate.Probed, status: 200, body: "queue"}
		default:
			a = replyTo(gate.NotReady)
			a.reason = said.Reason
		}
		if len(w.req.probe.NetworkHash) > 0 {
			a.hash = w.req.probe.NetworkHash
		}
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

// ask waits for readiness or for a drain to begin, whichever is first.
func (q *question) ask(ctx context.Context, g *gate.Gate, who gate.Asker, wake func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := make(chan gate.Answer, 1)
	go func() { said <- g.Readiness.Ask(ctx, who) }()
	select {
	case q.answer = <-said:
	case <-g.Drain.Started():
		q.answer = gate.Answer{Reason: "shutting down"}
	}
	q.done.Store(true)
	wake()
}
