package exchange

import (
	"maps"
	"slices"
	"sync"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
)

// MaxWaitingProbes is the maximum number of probes that wait for a readiness result at
// once. Each kind of prober has its own limit. Further probes get a 503 immediately.
const MaxWaitingProbes = 512

var tooManyProbes = gate.ReadinessResult{Reason: "too many probes are waiting"}

// ProbeCall is a probe that waits for a readiness result.
type ProbeCall struct {
	gate   *Gate
	kind   gate.Kind
	prober gate.Prober
	wake   func()
	cancel func() // ends the wait for the result; nil = the probe does not wait

	settling atomic.Bool // set by the goroutine that writes result
	result   gate.ReadinessResult
	ok       bool
	done     atomic.Bool // result may be read
}

// BeginProbe begins a probe. If the probe has to wait for the readiness result, the
// function wake is called when the result is known, possibly before BeginProbe returns.
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
	if g.Drain.Terminating() { // the drain may have begun before the probe was added
		p.settle(gate.ReadinessResult{})
	}
	return p
}

// settle sets the result, unless it is already set.
func (p *ProbeCall) settle(r gate.ReadinessResult) {
	if !p.settling.CompareAndSwap(false, true) {
		return
	}
	p.gate.probes.remove(p)
	p.result, p.ok = r, true
	p.done.Store(true)
	p.wake()
}

// Ready reports whether Reply may be called.
func (p *ProbeCall) Ready() bool { return p.cancel == nil || p.done.Load() }

// Cancel ends the wait after the prober has disconnected.
func (p *ProbeCall) Cancel() {
	if p.cancel != nil {
		p.cancel()
		p.gate.probes.remove(p)
	}
}

// Reply returns the reply to the probe and notifies the observer. It returns false if the
// prober has disconnected.
func (p *ProbeCall) Reply(g *Gate, x *Exchange, h *gate.ProbeHeaders) (gate.Reply, bool) {
	p.Cancel()
	r, ok := g.ReplyToProbe(p.kind, p.prober, x.Peer.Addr(), h, func() (gate.ReadinessResult, bool) { return p.result, p.ok })
	if ok {
		g.observeProbe(&x.Record, &r, x.clock)
	}
	return r, ok
}

type waitingProbes struct {
	mu    sync.Mutex
	calls map[*ProbeCall]struct{}
	count [gate.Probers]int
}

// add adds p to the waiting probes. It returns false, and does not add p, if
// MaxWaitingProbes probes of the same kind of prober are already waiting.
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

func (w *waitingProbes) remove(p *ProbeCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, in := w.calls[p]; in {
		delete(w.calls, p)
		w.count[p.prober]--
	}
}

// settle ends the wait of every probe with the result that the gate is not ready. The
// drain calls it when it begins.
func (w *waitingProbes) settle() {
	w.mu.Lock()
	calls := slices.Collect(maps.Keys(w.calls))
	w.mu.Unlock()
	for _, p := range calls {
		p.settle(gate.ReadinessResult{})
	}
}
