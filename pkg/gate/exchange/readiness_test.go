package exchange

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

// knownResult is a Readiness that always knows this result.
type knownResult gate.ReadinessResult

func (r knownResult) Try(gate.Prober) (gate.ReadinessResult, bool) {
	return gate.ReadinessResult(r), true
}
func (r knownResult) Await(_ gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	notify(gate.ReadinessResult(r))
	return func() {}
}

func TestTheNotReadyReasonIsSentOnlyToThePlatformAndThePod(t *testing.T) {
	const reason = "user-container: refused; sidecar: status 503"
	g := &Gate{Config: Config{Readiness: knownResult{Reason: reason}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		agent, peer, want string
	}{
		{"kube-probe/1.34", "192.0.2.1", reason},
		{"Knative-Activator-Probe", "192.0.2.1", reason},
		{"Knative-Autoscaling-Probe", "2001:db8::1", reason},
		{"curl/8.5.0", "192.0.2.1", "not ready"},
		{"curl/8.5.0", "2001:db8::1", "not ready"},
		{"kube-probe", "192.0.2.1", "not ready"},
		{"Knative-Ingress-Probe", "10.0.0.1", "not ready"},
		{"", "::ffff:192.0.2.1", "not ready"},
		{"curl/8.5.0", "127.0.0.1", reason},
		{"curl/8.5.0", "127.8.9.10", reason},
		{"curl/8.5.0", "::1", reason},
		{"", "::ffff:127.0.0.1", reason},
		{"curl/8.5.0", "", "not ready"}, // a prober of unknown address
	} {
		peer, _ := netip.ParseAddr(c.peer)
		h := gate.ProbeHeaders{UserAgent: headerValue(c.agent), NetworkProbe: headerValue("queue")}
		kind, caller := gate.Classify(h)
		reply, ok := g.ReplyToProbe(kind, caller, peer, &h, func() (gate.ReadinessResult, bool) { return g.WaitReady(t.Context(), caller) })
		if !ok || reply.Status != 503 || reply.Reason != c.want {
			t.Errorf("%q from %q: %d, reason %q, want %q", c.agent, c.peer, reply.Status, reply.Reason, c.want)
		}
	}
}

func TestTheReplyOfAReadyContainerHasNoReason(t *testing.T) {
	g := &Gate{Config: Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	reply, ok := g.ReplyToProbe(gate.ReadinessProbe, gate.AnyProber, netip.Addr{}, &gate.ProbeHeaders{}, func() (gate.ReadinessResult, bool) {
		return g.WaitReady(t.Context(), gate.AnyProber)
	})
	if !ok || reply.Status != 200 || reply.Reason != "" {
		t.Errorf("%+v, %v", reply, ok)
	}
}

// knownOnce is a Readiness that knows the result at its first call only.
type knownOnce struct{ calls int }

func (r *knownOnce) Try(gate.Prober) (gate.ReadinessResult, bool) {
	r.calls++
	return gate.ReadinessResult{Ready: true}, r.calls == 1
}

func (r *knownOnce) Await(gate.Prober, func(gate.ReadinessResult)) (cancel func()) { return func() {} }

func TestAKnownReadinessResultIsSentImmediately(t *testing.T) {
	g := &Gate{Config: Config{Readiness: &knownOnce{}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	p := g.BeginProbe(Screening{Kind: gate.ReadinessProbe}, nil)
	if !p.Ready() {
		t.Fatal("the probe waits")
	}
	if reply, ok := p.Reply(g, &Exchange{}, &gate.ProbeHeaders{}); !ok || reply.Status != 200 {
		t.Errorf("reply %+v, %v", reply, ok)
	}
}

// pendingReadiness is a Readiness that does not know the result until a test calls
// notify.
type pendingReadiness struct {
	notify map[int]func(gate.ReadinessResult)
	calls  int
}

func (h *pendingReadiness) Try(gate.Prober) (gate.ReadinessResult, bool) {
	return gate.ReadinessResult{}, false
}

func (h *pendingReadiness) Await(_ gate.Prober, notify func(gate.ReadinessResult)) (cancel func()) {
	h.calls++
	n := h.calls
	h.notify[n] = notify
	return func() { delete(h.notify, n) }
}

func TestWaitingProbesUseNoGoroutineAndAreLimited(t *testing.T) {
	pending := &pendingReadiness{notify: map[int]func(gate.ReadinessResult){}}
	g := &Gate{Config: Config{Readiness: pending}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	begin := func(c gate.Prober) *ProbeCall {
		return g.BeginProbe(Screening{Kind: gate.ReadinessProbe, Prober: c}, func() {})
	}
	status := func(p *ProbeCall) int {
		r, _ := p.Reply(g, &Exchange{}, &gate.ProbeHeaders{})
		return r.Status
	}
	before := runtime.NumGoroutine()
	var waiting []*ProbeCall
	for range 3 * MaxWaitingProbes {
		switch p := begin(gate.AnyProber); {
		case !p.Ready():
			waiting = append(waiting, p)
		case status(p) != 503:
			t.Fatal("a probe beyond the limit does not get 503")
		}
	}
	if n := len(waiting); n != MaxWaitingProbes {
		t.Errorf("%d probes wait, want %d", n, MaxWaitingProbes)
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d additional goroutines", n)
	}
	if begin(gate.Kubelet).Ready() {
		t.Error("waiting probes of others prevent a kubelet's probe from waiting")
	}
	waiting[0].Cancel()
	if waiting[0] = begin(gate.AnyProber); waiting[0].Ready() {
		t.Error("a cancelled probe does not free its position")
	}
	for _, notify := range pending.notify {
		notify(gate.ReadinessResult{Ready: true})
	}
	for _, p := range waiting {
		if !p.Ready() || status(p) != 200 {
			t.Fatal("a probe that waited has no result")
		}
	}
	if n := g.probes.count; n != [gate.Probers]int{} {
		t.Errorf("%v probes are left", n)
	}
}

func TestADrainEndsTheWaitOfProbes(t *testing.T) {
	g := &Gate{Config: Config{Readiness: &pendingReadiness{notify: map[int]func(gate.ReadinessResult){}}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	woken := 0
	p := g.BeginProbe(Screening{Kind: gate.ReadinessProbe}, func() { woken++ })
	if p.Ready() {
		t.Fatal("the probe does not wait")
	}
	g.Drain.Start()
	if !p.Ready() || woken != 1 {
		t.Fatalf("ready %v, woken %d times", p.Ready(), woken)
	}
	if r, ok := p.Reply(g, &Exchange{}, &gate.ProbeHeaders{}); !ok || r.Outcome != gate.ShuttingDown {
		t.Errorf("reply %+v, %v", r, ok)
	}
}
