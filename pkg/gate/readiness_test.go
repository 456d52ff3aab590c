package gate

import (
	"context"
	"net/netip"
	"testing"
)

// knownResult is a readiness that needs no wait.
type knownResult ReadinessResult

func (r knownResult) Try(Caller) (ReadinessResult, bool)           { return ReadinessResult(r), true }
func (r knownResult) Wait(context.Context, Caller) ReadinessResult { return ReadinessResult(r) }

func TestOnlyThePlatformAndThePodLearnWhyItIsNotReady(t *testing.T) {
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
		{"curl/8.5.0", "", "not ready"}, // it is not known where that is
	} {
		peer, _ := netip.ParseAddr(c.peer)
		h := ProbeHeaders{UserAgent: headerValue(c.agent), NetworkProbe: headerValue("queue")}
		kind, caller := Classify(h)
		reply, ok := g.ReplyToProbe(kind, caller, peer, &h, func() (ReadinessResult, bool) { return g.WaitReady(t.Context(), caller) })
		if !ok || reply.Status != 503 || reply.Reason != c.want {
			t.Errorf("%q from %q: %d, reason %q, want %q", c.agent, c.peer, reply.Status, reply.Reason, c.want)
		}
	}
}

func TestAReadyContainerNeedsNoReason(t *testing.T) {
	g := &Gate{Config: Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	reply, ok := g.ReplyToProbe(ReadinessProbe, AnyCaller, netip.Addr{}, &ProbeHeaders{}, func() (ReadinessResult, bool) {
		return g.WaitReady(t.Context(), AnyCaller)
	})
	if !ok || reply.Status != 200 || reply.Reason != "" {
		t.Errorf("%+v, %v", reply, ok)
	}
}

// knownOnce is a readiness whose result is out of date when it is asked for
// again.
type knownOnce struct{ asked int }

func (r *knownOnce) Try(Caller) (ReadinessResult, bool) {
	r.asked++
	return ReadinessResult{Ready: true}, r.asked == 1
}

func (r *knownOnce) Wait(ctx context.Context, _ Caller) ReadinessResult {
	<-ctx.Done()
	return ReadinessResult{}
}

func TestAResultThatWasKnownIsReplied(t *testing.T) {
	g := &Gate{Config: Config{Readiness: &knownOnce{}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	p := g.BeginProbe(Screening{Kind: ReadinessProbe}, nil)
	if !p.Ready() {
		t.Fatal("it waits")
	}
	if reply, ok := p.Reply(g, &Exchange{}, &ProbeHeaders{}); !ok || reply.Status != 200 {
		t.Errorf("reply %+v, %v", reply, ok)
	}
}
