package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestAPathPatternMatchesOnlyUnambiguousPaths(t *testing.T) {
	for _, c := range []struct {
		pattern string
		target  string
		matches bool
	}{
		{"/metrics", "/metrics", true},
		{"/metrics", "/metrics?name=a", true},
		{"/metrics", "/metrics/", false},
		{"/metrics", "/metricsx", false},
		{"/metrics", "/METRICS", false},
		{"/metrics", "//metrics", false},
		{"/metrics", "/%6detrics", false},
		{"/health/*", "/health/", true},
		{"/health/*", "/health/live", true},
		{"/health/*", "/health/a/b?c/../d", true},
		{"/health/*", "/health", false},
		{"/health/*", "/health/../predict", false},
		{"/health/*", "/health/./x", false},
		{"/health/*", "/health/a/../../predict", false},
		{"/health/*", "/health/%2e%2e/predict", false},
		{"/health/*", "/health//x", false},
		{"/health/*", `/health/..\predict`, false},
		{"/health/*", "/health/..;/predict", false},
		{"/*", "/anything", true},
		{"/*", "//anything", false},
	} {
		p, err := ParsePathPattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		u := newUnlimited(&Config{UnlimitedPaths: []PathPattern{p}})
		if got := u.matches([]byte(c.target)); got != c.matches {
			t.Errorf("%s and %s: %v", c.pattern, c.target, got)
		}
	}
}

func TestRequestsForUnlimitedPathsSkipTheQueueUpToUnlimitedCapacity(t *testing.T) {
	p, _ := ParsePathPattern("/metrics")
	g := &Gate{Config: Config{ConcurrencyLimit: 1, UnlimitedPaths: []PathPattern{p}, UnlimitedCapacity: 2, QueueRefusalStatus: 429}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	clock := func() int64 { return 1 }
	begin := func(target string) (*Exchange, gate.Outcome) {
		x := new(Exchange)
		x.Bind(g, clock, func() {}, nil)
		x.Target = []byte(target)
		x.Begin(1, nil, nil)
		return x, x.enqueue()
	}
	slot, o := begin("/")
	if o != gate.Undecided || g.Admission.InFlight() != 1 {
		t.Fatalf("the first request: %s, %d in flight", o, g.Admission.InFlight())
	}
	first, o := begin("/metrics")
	if o != gate.Undecided || !first.Unlimited || first.State() != StateConnecting {
		t.Errorf("a scrape during a request: %s, state %d", o, first.State())
	}
	second, _ := begin("/metrics")
	third, o := begin("/metrics")
	if o != gate.QueueFull || third.Unlimited || third.RejectionReply(o, 1).Status != 429 {
		t.Errorf("a scrape beyond the capacity: %s, unlimited %v", o, third.Unlimited)
	}
	third.End(o)
	first.End(gate.Served)
	if fourth, o := begin("/metrics"); o != gate.Undecided {
		t.Errorf("a scrape after another has ended: %s", o)
	} else {
		fourth.End(gate.Served)
	}
	second.End(gate.Served)
	slot.End(gate.Served)
	if n, m := g.unlimited.slots.InFlight(), g.Admission.InFlight(); n != 0 || m != 0 {
		t.Errorf("%d and %d requests are left", n, m)
	}
}
