package exchange

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

func mustApply(t *testing.T, g *Gate, change func(*Config)) {
	t.Helper()
	c := g.Config
	change(&c)
	if err := g.Apply(&c); err != nil {
		t.Fatal(err)
	}
}

func TestARequestKeepsTheTimeoutsInForceWhenItArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 2, QueueMaxWait: 5 * time.Second, RequestTimeout: time.Minute})
		born := time.Now()
		before := arrived(g, born)
		mustApply(t, g, func(c *Config) { c.QueueMaxWait, c.RequestTimeout = 0, 2*time.Second })
		after := arrived(g, born)
		done := make(chan struct{})
		go func() {
			defer close(done)
			o := after.Admit(t.Context())
			if o != gate.RequestTimeout || time.Since(born) != 2*time.Second {
				t.Errorf("the request that arrived after the change: %s after %v", o, time.Since(born))
			}
			after.End(o)
		}()
		if o := before.Admit(t.Context()); o != gate.QueueWaitExpired || time.Since(born) != 5*time.Second {
			t.Errorf("the request that arrived before the change: %s after %v", o, time.Since(born))
		}
		<-done
		wantCounts(t, g.Admission, 1, 1)
		before.End(gate.QueueWaitExpired)
	})
}

func TestARejectedRequestKeepsTheStatusInForceWhenItArrived(t *testing.T) {
	g := fullGate(t, Config{})
	b := arrived(g, time.Now())
	o := b.Admit(t.Context())
	mustApply(t, g, func(c *Config) { c.QueueRefusalStatus = 429 })
	if reply := b.RejectionReply(o, 1); o != gate.QueueFull || reply.Status != 503 {
		t.Errorf("%s with status %d, want 503, as configured when it arrived", o, reply.Status)
	}
	b.End(o)
	b.Arrive()
	o = b.Admit(t.Context())
	if reply := b.RejectionReply(o, 1); o != gate.QueueFull || reply.Status != 429 {
		t.Errorf("%s with status %d, want 429 after the change", o, reply.Status)
	}
	b.End(o)
}

func TestALowerLimitLetsRequestsInFlightFinish(t *testing.T) {
	g := &Gate{Config: Config{ConcurrencyLimit: 3, QueueCapacity: 10}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	var all []*Blocking
	for range 3 {
		b := arrived(g, time.Now())
		if o := b.Admit(t.Context()); o != gate.Undecided {
			t.Fatal(o)
		}
		b.Forward()
		all = append(all, b)
	}
	mustApply(t, g, func(c *Config) { c.ConcurrencyLimit, c.QueueCapacity = 1, 0 })
	wantCounts(t, g.Admission, 3, 0)
	for i, b := range all {
		if g.Admission.TryAcquire() {
			t.Errorf("a slot is free with %d in flight", 3-i)
		}
		b.End(gate.Served)
	}
	if !g.Admission.TryAcquire() || g.Admission.TryAcquire() {
		t.Error("the limit is not 1")
	}
}

func TestAReusedExchangeForgetsTheDeadlineOfItsPreviousRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 1, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}})
		b := arrived(g, time.Now())
		b.Fields = fieldLines{"Timeout", "1"}
		wantRejected(t, b, t.Context(), gate.DeadlineExceeded, time.Second)
		mustApply(t, g, func(c *Config) { c.Overload, c.QueueMaxWait = OverloadConfig{}, time.Minute })
		b.Arrive()
		wantRejected(t, b, t.Context(), gate.QueueWaitExpired, time.Minute)

		// From here on, a slot is free, so the requests are not queued. A request with an
		// expired deadline is also rejected while it connects. So the second request
		// below must not keep the deadline of the first.
		g.Admission.Release()
		mustApply(t, g, func(*Config) {})
		b.Arrive()
		_ = b.Admit(t.Context())
		b.End(gate.Served)
		mustApply(t, g, func(c *Config) { c.Overload = OverloadConfig{} })
		b.Arrive()
		time.Sleep(time.Hour)
		if o := b.Admit(t.Context()); o != gate.Undecided || b.ticket.IsLate(b.clock()) {
			t.Errorf("%s; late because of the previous request's deadline: %v", o, b.ticket.IsLate(b.clock()))
		}
		b.End(gate.Served)
	})
}

func TestARequestThatArrivesBeforePrioritiesAreEnabledGetsTheDefaultClass(t *testing.T) {
	g := fullGate(t, Config{QueueCapacity: 2, Overload: OverloadConfig{PriorityBy: mustSelect(t, "header:priority")}})
	b := arrived(g, time.Now())
	b.Fields = fieldLines{"Priority", "u=0"}
	if o := b.enqueue(); o != gate.Undecided || b.ticket.Waiter.Class != 0 {
		t.Fatalf("%s, class %d", o, b.ticket.Waiter.Class)
	}
	b.End(gate.ClientGone)
	mustApply(t, g, func(c *Config) { c.Overload = OverloadConfig{} })
	b.Arrive()
	mustApply(t, g, func(*Config) {})
	if o := b.enqueue(); o != gate.Undecided || b.ticket.Waiter.Class != admission.DefaultClass {
		t.Errorf("%s, class %d, want the default class", o, b.ticket.Waiter.Class)
	}
	b.End(gate.ClientGone)
}

func TestAFixedLimitReplacesAnAdaptiveLimit(t *testing.T) {
	auto := func(c *Config) { c.Overload.AutoLimit = &admission.LimitRange{Min: 1, Max: 50} }
	g := &Gate{Config: Config{QueueCapacity: 10}}
	auto(&g.Config)
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	limiter := g.settings.Load().overload.limiter
	mustApply(t, g, func(c *Config) { auto(c); c.QueueMaxWait = time.Second })
	if g.settings.Load().overload.limiter != limiter {
		t.Error("a change of another setting resets the adaptive limit")
	}
	mustApply(t, g, func(c *Config) { c.Overload, c.ConcurrencyLimit = OverloadConfig{}, 7 })
	// A request that began before the change makes this call when it ends.
	g.applyLimit(limiter)
	if n := g.Admission.Limit(); n != 7 {
		t.Errorf("the limit is %d, want 7", n)
	}
	mustApply(t, g, func(c *Config) { c.Overload = OverloadConfig{} })
	g.applyLimit(limiter)
	if n := g.Admission.Limit(); n != 0 {
		t.Errorf("the limit is %d, want none", n)
	}
	mustApply(t, g, auto)
	if n := g.Admission.Limit(); n == 0 || g.settings.Load().overload.limiter == limiter {
		t.Errorf("the limit is %d, want an adaptive limit", n)
	}
}

func TestInvalidSettingsChangeNothing(t *testing.T) {
	g := &Gate{Config: Config{ConcurrencyLimit: 3}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	before := g.settings.Load()
	if err := g.Apply(&Config{ConcurrencyLimit: -1}); err == nil {
		t.Error("a negative limit is accepted")
	}
	if g.settings.Load() != before || g.Admission.Limit() != 3 {
		t.Error("the settings have changed")
	}
}

func TestApplyChangesEveryFieldItDocuments(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"ConcurrencyLimit":     func(c *Config) { c.ConcurrencyLimit = 7 },
		"QueueCapacity":        func(c *Config) { c.QueueCapacity = 7 },
		"QueueRefusalStatus":   func(c *Config) { c.QueueRefusalStatus = 429 },
		"QueueMaxWait":         func(c *Config) { c.QueueMaxWait = 7 },
		"RequestTimeout":       func(c *Config) { c.RequestTimeout = 7 },
		"ResponseStartTimeout": func(c *Config) { c.ResponseStartTimeout = 7 },
		"IdleTimeout":          func(c *Config) { c.IdleTimeout = 7 },
		"TunnelMax":            func(c *Config) { c.TunnelMax = 7 },
		"UpstreamWait":         func(c *Config) { c.UpstreamWait = 7 },
		"UpstreamRestartWait":  func(c *Config) { c.UpstreamRestartWait = 7 },
		"Overload":             func(c *Config) { c.Overload.MeasuredRetry = true },
	} {
		g := &Gate{}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		effects := func() any {
			s, timeouts := g.settings.Load(), Timeouts{}
			timeouts.Begin(s, 1)
			return [...]any{
				timeouts, s.statusOf(gate.QueueFull), s.overload == nil, s.QueueMaxWait, s.TunnelMax, s.UpstreamWait, s.UpstreamRestartWait,
				g.Admission.Limit(), g.Admission.Capacity(),
			}
		}
		before := effects()
		mustApply(t, g, change)
		if effects() == before {
			t.Errorf("%s has no effect", name)
		}
	}
}

func TestEveryDurationOfTheConfigIsCheckedAndCapped(t *testing.T) {
	durations := func(c *Config) (names []string, values []reflect.Value) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			if v.Field(i).Type() == reflect.TypeFor[time.Duration]() {
				names, values = append(names, v.Type().Field(i).Name), append(values, v.Field(i))
			}
		}
		return names, values
	}
	var negative, longest Config
	names, values := durations(&negative)
	for _, v := range values {
		v.SetInt(-1)
	}
	problems := negative.Check()
	for _, name := range names {
		if problems == nil || !strings.Contains(problems.Error(), name+" -1ns") {
			t.Errorf("Check accepts a negative %s: %v", name, problems)
		}
	}
	_, values = durations(&longest)
	for _, v := range values {
		v.SetInt(math.MaxInt64)
	}
	g := &Gate{Config: longest}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{&g.Config, &g.settings.Load().Config} {
		names, values = durations(c)
		for i, v := range values {
			if v.Int() != int64(maxTimeout) {
				t.Errorf("%s is %s, want the maximum %s", names[i], time.Duration(v.Int()), maxTimeout)
			}
		}
	}
}
