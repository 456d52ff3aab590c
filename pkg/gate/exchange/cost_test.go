package exchange

import (
	"net/netip"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// clientWith implements the methods of Downstream that determine the cost.
type clientWith struct {
	Downstream
	req wire.Request
}

func (c *clientWith) Request() (*wire.Request, netip.Addr) { return &c.req, netip.Addr{} }

func mustCost(t *testing.T, text string) Selector {
	t.Helper()
	s, err := ParseCostSelector(text)
	if err != nil || s.String() != text {
		t.Fatalf("%q: %q, %v", text, s, err)
	}
	return s
}

func TestTheCostOfARequestIsAQuarterOfItsLength(t *testing.T) {
	by := mustCost(t, "length")
	for _, c := range []struct {
		kind   wire.BodyKind
		length int64
		want   int64
	}{
		{wire.NoBody, 0, 1},
		{wire.BodyLength, 0, 1},
		{wire.BodyLength, 3, 1},
		{wire.BodyLength, 8000, 2000},
		{wire.BodyLength, 1 << 60, 1 << 58},
		{wire.BodyChunked, 0, DefaultCost},
	} {
		client := &clientWith{}
		client.req.Body, client.req.Length = c.kind, c.length
		x := &Exchange{}
		x.down = client
		if got := by.cost(x, true); got != c.want {
			t.Errorf("body %v of %d bytes: %d units, want %d", c.kind, c.length, got, c.want)
		}
	}
}

func TestOnlyTrustedSourcesSetTheCostWithAField(t *testing.T) {
	by := mustCost(t, "header:X-Tokens")
	for _, c := range []struct {
		fields  fieldLines
		trusted bool
		want    int64
	}{
		{fieldLines{"X-Tokens", "300", "Content-Length", "40"}, true, 300},
		{fieldLines{"x-tokens", "0"}, true, 1},
		{fieldLines{"X-Tokens", "300", "Content-Length", "40"}, false, 10},
		{fieldLines{"Content-Length", "40"}, true, 10},
		{nil, true, DefaultCost},
		{fieldLines{"X-Tokens", ""}, true, DefaultCost},
		{fieldLines{"X-Tokens", "-5"}, true, DefaultCost},
		{fieldLines{"X-Tokens", "1e3"}, true, DefaultCost},
		{fieldLines{"X-Tokens", "99999999999999999999999999"}, true, admission.MaxCost},
	} {
		x := &Exchange{}
		x.Fields = c.fields
		if got := by.cost(x, c.trusted); got != c.want {
			t.Errorf("%v, trusted %v: %d units, want %d", c.fields, c.trusted, got, c.want)
		}
	}
}

func TestInvalidCostSelectorsAndCostLimitsAreRejected(t *testing.T) {
	for _, text := range []string{"", "peer", "path:1", "header:", "header:a b", "length:2"} {
		if _, err := ParseCostSelector(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if _, err := ParseSelector("length"); err == nil {
		t.Error("length was accepted as a key")
	}
	for _, o := range []OverloadConfig{{CostLimit: 5}, {CostBy: mustCost(t, "length")}, {CostBy: mustCost(t, "length"), CostLimit: admission.MaxCost + 1}} {
		if (&Config{Overload: o}).Check() == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestTheCostLimitAppliesEvenIfConcurrencyIsUnlimited(t *testing.T) {
	g := &Gate{Config: Config{QueueCapacity: 10, Overload: OverloadConfig{CostBy: mustCost(t, "header:X-Tokens"), CostLimit: 100}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	begin := func(tokens string) *Blocking {
		b := NewBlocking(g, func() int64 { return 1 })
		b.Fields = fieldLines{"X-Tokens", tokens}
		b.Arrive()
		return b
	}
	first := begin("70")
	if o := first.Admit(t.Context()); o != gate.Undecided {
		t.Fatal(o)
	}
	second := begin("40")
	if o := second.enqueue(); o != gate.Undecided || second.State() != StateQueued {
		t.Fatalf("%v, %s: want it queued: 110 of 100 units", o, second.State())
	}
	third := begin("1")
	if o := third.enqueue(); o != gate.Undecided || third.State() != StateQueued {
		t.Fatalf("%v, %s: want it queued behind the second", o, third.State())
	}
	if s := g.AdmissionStats(); s.CostUnits != 70 || s.CostLimit != 100 || s.InFlight != 1 || s.QueueDepth != 2 {
		t.Errorf("%+v", s)
	}
	second.End(gate.ClientGone)
	if o := third.queued(1); o != gate.Undecided || third.State() != StateConnecting {
		t.Fatalf("%v, %s: want it admitted", o, third.State())
	}
	first.Forward()
	first.Switch() // a tunnel keeps its units
	if s := g.AdmissionStats(); s.CostUnits != 71 {
		t.Errorf("%d units, want 71", s.CostUnits)
	}
	first.End(gate.Tunnelled)
	third.End(gate.UpstreamReset)
	if s := g.AdmissionStats(); s.CostUnits != 0 || s.InFlight != 0 {
		t.Errorf("left: %+v", s)
	}
}
