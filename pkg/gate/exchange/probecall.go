package exchange

import (
	"maps"
	"slices"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// MaxWaitingProbes limits how many incoming probes of each caller kind may wait for
// a readiness result at once; further probes get 503. A kubelet, an activator and
// ingress controllers usually have only a few in flight.
const MaxWaitingProbes = 512

// tooManyProbes is the result for a probe beyond MaxWaitingProbes.
var tooManyProbes = gate.ReadinessResult{Reason: "too many probes are waiting"}

// ProbeCall is a probe that waits for its reply.
type ProbeCall struct {
	gate   *Gate
	kind   gate.Kind
	prober gate.Prober
	wake   func()
	cancel func() // nil = the result was known immediately

	settling atomic.Bool // guards result, which is set once
	result   gate.ReadinessResult
	ok       bool
	done     atomic.Bool // result may be read
}

// BeginProbe begins a probe. If the readiness result is not known yet, wake is called when
// it is. Waiting uses no goroutine.
func (g *Gate) BeginProbe(s Screening, wake func()) *ProbeCall {
	p := &ProbeCall{gate: g, kind: s.Kind, prober: s.Prober, wake: wake}
	if s.Kind != gate.ReadinessProbe || g.Drain.Terminating() {
		return p
	}
	if p.result, p.ok = g.Readiness.Try(s.Prober); p.ok {
		return p
	}
	if !g.probes.add(p) {
		p.result, p.ok = tooManyProbes, true
		return p
	}
	p.cancel = g.Readiness.Await(s.Prober, p.settle)
	if g.Drain.Terminating() { // the drain may have begun before p was added
		p.settle(gate.ReadinessResult{})
	}
	return p
}

// settle sets the result if it is not set yet.
func (p *ProbeCall) settle(r gate.ReadinessResult) {
	if !p.settling.CompareAndSwap(false, true) {
		return
	}
	p.gate.probes.remove(p)
	p.result, p.ok = r, true
	p.done.Store(true)
	p.wake()
}

// Ready reports whether Reply can be called.
func (p *ProbeCall) Ready() bool { return p.cancel == nil || p.done.Load() }

// Cancel ends the wait after the prober has disconnected.
func (p *ProbeCall) Cancel() {
	if p.cancel != nil {
		p.cancel()
		p.gate.probes.remove(p)
	}
}

// Reply returns the reply to the probe and notifies the observer with x. It is false if
// the prober has disconnected.
func (p *ProbeCall) Reply(g *Gate, x *Exchange, h *gate.ProbeHeaders) (gate.Reply, bool) {
	p.Cancel()
	r, ok := g.ReplyToProbe(p.kind, p.prober, x.Peer.Addr(), h, func() (gate.ReadinessResult, bool) { return p.result, p.ok })
	if ok {
		g.observeProbe(&x.Record, &r, x.clock)
	}
	return r, ok
}

// waitingProbes is the set of probes waiting for a readiness result.
type waitingProbes struct {
	mu    sync.Mutex
	calls map[*ProbeCall]struct{}
	count [gate.Probers]int
}

// add adds p, unless MaxWaitingProbes of its caller kind are waiting.
func (w *waitingProbes) add(p *ProbeCall) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[p.prober] >= MaxWaitingProbes {
		return false
	}
	if w.calls == nil {
		w.calls = map[*ProbeCall]struct{}{}
	}
	w.calls[p] = struct{}{}
	w.count[p.prober]++
	return true
}

// remove removes p if present.
func (w *waitingProbes) remove(p *ProbeCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, in := w.calls[p]; in {
		delete(w.calls, p)
		w.count[p.prober]--
	}
}

// settle ends all waits when a drain begins.
func (w *waitingProbes) settle() {
	w.mu.Lock()
	calls := slices.Collect(maps.Keys(w.calls))
	w.mu.Unlock()
	for _, p := range calls {
		p.settle(gate.ReadinessResult{})
	}
}
