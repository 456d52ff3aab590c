package exchange

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

type fieldLines []string // name, value, name, value

func (f fieldLines) Each(yield func(name, value []byte) bool) {
	for i := 0; i < len(f) && yield([]byte(f[i]), []byte(f[i+1])); i += 2 {
	}
}

func mustSelect(t *testing.T, s string) Selector {
	t.Helper()
	selector, err := ParseSelector(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return selector
}

func TestSelectorKeysAreEqualOnlyForEqualParts(t *testing.T) {
	x := func(target, peer string, fields ...string) *Exchange {
		return &Exchange{Record: gate.Record{Target: []byte(target), Peer: netip.MustParseAddrPort(peer), Fields: fieldLines(fields)}}
	}
	base := x("/a/b/c?d", "192.0.2.1:1", "X-Other", "z", "x-tenant", "blue", "X-Tenant", "red")
	for _, c := range []struct {
		by    string
		same  *Exchange
		other *Exchange
	}{
		{"header:X-Tenant", x("/", "192.0.2.9:1", "X-TENANT", "blue"), x("/a/b/c?d", "192.0.2.1:1", "X-Tenant", "red")},
		{"header:X-Tenant", x("/", "192.0.2.9:1", "X-TENANT", "blue"), x("/a/b/c?d", "192.0.2.1:1")},
		{"peer", x("/", "[::ffff:192.0.2.1]:7"), x("/a/b/c?d", "192.0.2.2:1")},
		{"peer", x("/", "192.0.2.1:7"), x("/a/b/c?d", "[2001:db8::1]:1")},
		{"path:1", x("/a?x", "192.0.2.9:1"), x("/b/b/c", "192.0.2.1:1")},
		{"path:2", x("/x/b", "192.0.2.9:1"), x("/a", "192.0.2.1:1")},
		{"path:3", x("/x/y/c", "192.0.2.9:1"), x("/a/b?/c", "192.0.2.1:1")},
	} {
		s := mustSelect(t, c.by)
		if s.Key(base) != s.Key(c.same) || s.Key(base) == s.Key(c.other) {
			t.Errorf("%s: equal %v, other equal %v", c.by, s.Key(base) == s.Key(c.same), s.Key(base) == s.Key(c.other))
		}
		if s.String() != c.by {
			t.Errorf("%s: String is %s", c.by, s)
		}
	}
}

func TestAPriorityIsADigitOrAnUrgency(t *testing.T) {
	for value, want := range map[string]uint8{
		"": 3, "0": 0, "7": 7, "8": 3, "u=1": 1, "u=1, i": 1, "i, u=5": 5, "i,u=0": 0, "high": 3, "12": 3, "u=": 3, " 2": 2,
	} {
		if got := parseClass([]byte(value)); got != want {
			t.Errorf("%q: class %d, want %d", value, got, want)
		}
	}
}

func TestThePriorityOfAnUntrustedPeerIsIgnored(t *testing.T) {
	g := &Gate{Config: Config{
		ConcurrencyLimit: 1, QueueCapacity: 1, Overload: OverloadConfig{PriorityBy: mustSelect(t, "header:priority")},
		TrustedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]uint8{"10.1.1.1:1": 0, "192.0.2.1:1": admission.DefaultClass} {
		b := arrived(g, time.Now())
		b.Peer, b.Fields = netip.MustParseAddrPort(peer), fieldLines{"Priority", "u=0"}
		g.settings.Load().overload.setOrder(&b.Exchange)
		if b.ticket.Waiter.Class != want {
			t.Errorf("%s: class %d, want %d", peer, b.ticket.Waiter.Class, want)
		}
		b.End(gate.ClientGone)
	}
}

func TestKeyAndDeadlineOfAnUntrustedPeerAreIgnored(t *testing.T) {
	g := &Gate{Config: Config{
		ConcurrencyLimit: 1, QueueCapacity: 1,
		Overload:       OverloadConfig{FairBy: mustSelect(t, "header:tenant"), DeadlineBy: mustSelect(t, "header:timeout")},
		TrustedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	keyOf := func(peer, tenant string) uint64 {
		b := arrived(g, time.Now())
		defer b.End(gate.ClientGone)
		b.Peer, b.Fields = netip.MustParseAddrPort(peer), fieldLines{"Tenant", tenant, "Timeout", "0"}
		g.settings.Load().overload.setOrder(&b.Exchange)
		if rejected := g.settings.Load().overload.checkDeadline(&b.Exchange) != gate.Undecided; rejected != g.Trusts(b.Peer.Addr()) {
			t.Errorf("%s: rejected for an expired deadline: %v", peer, rejected)
		}
		return b.ticket.Waiter.Key
	}
	for _, c := range []struct {
		name, peer, tenant, otherPeer, otherTenant string
		same                                       bool
	}{
		{"tenants of a trusted peer have different keys", "10.1.1.1:1", "a", "10.1.1.1:1", "b", false},
		{"a tenant of two trusted peers has one key", "10.1.1.1:1", "a", "10.1.1.2:1", "a", true},
		{"an untrusted peer has one key", "192.0.2.1:1", "a", "192.0.2.1:2", "b", true},
		{"two untrusted peers have different keys", "192.0.2.1:1", "a", "192.0.2.2:1", "a", false},
		{"an untrusted /64 has one key", "[2001:db8::1]:1", "a", "[2001:db8::ffff:1:2:3]:1", "b", true},
		{"two untrusted /64 have different keys", "[2001:db8::1]:1", "a", "[2001:db8:0:1::1]:1", "a", false},
	} {
		if same := keyOf(c.peer, c.tenant) == keyOf(c.otherPeer, c.otherTenant); same != c.same {
			t.Errorf("%s: same key %v", c.name, same)
		}
	}
}

func TestClientTimeoutsAreParsedInEveryFormat(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1S": time.Second, "250m": 250 * time.Millisecond, "3M": 3 * time.Minute, "1H": time.Hour, "5u": 5 * time.Microsecond, "7n": 7,
		"2": 2 * time.Second, "0": 0, "1.5s": 1500 * time.Millisecond, "300ms": 300 * time.Millisecond, "99999999S": 99999999 * time.Second,
		"99999999H": maxTimeout, "99999999999999999999": maxTimeout, "999999999999999999H": maxTimeout, "2540400h": maxTimeout,
	} {
		if got, ok := parseTimeout([]byte(value), time.Second); !ok || got != want {
			t.Errorf("%q: %v, %v, want %v", value, got, ok, want)
		}
	}
	for _, bad := range []string{"", "S", "x", "-1s", "1x", "12345678901234567890123", "1 S", "m5"} {
		if got, ok := parseTimeout([]byte(bad), time.Second); ok {
			t.Errorf("%q is parsed as %v", bad, got)
		}
	}
}

func TestATimeoutWithoutAUnitIsInMillisecondsIfItsSelectorEndsInMs(t *testing.T) {
	for by, want := range map[string]time.Duration{
		"header:timeout": 250 * time.Second, "header:timeout:ms": 250 * time.Millisecond, "header:X-Envoy-Expected-Rq-Timeout-Ms": 250 * time.Millisecond,
	} {
		s, err := ParseTimeoutSelector(by)
		if err != nil || s.String() != by {
			t.Errorf("%s: %v, %s", by, err, s)
		}
		if got, ok := s.timeout(fieldLines{s.name, "250"}); !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", by, got, ok, want)
		}
		if got, ok := s.timeout(fieldLines{s.name, "250S"}); !ok || got != 250*time.Second {
			t.Errorf("%s with a unit: %v, %v", by, got, ok)
		}
		if got, ok := s.timeout(fieldLines{s.name, "18446744073709551615"}); !ok || got < 365*24*time.Hour {
			t.Errorf("%s: a huge number is parsed as %v, %v", by, got, ok)
		}
	}
	for _, bad := range []string{"peer", "path:1", "header:", "header::ms", "header:a:s", "peer:ms"} {
		if s, err := ParseTimeoutSelector(bad); err == nil {
			t.Errorf("%q is parsed as %s", bad, s)
		}
	}
}

func TestAHugeDeadlineDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{ConcurrencyLimit: 1, QueueCapacity: 1, RequestTimeout: math.MaxInt64, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		for _, timeout := range []string{"99999999H", "99999999999999999999", "2562047h"} {
			b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
			b.Reset().Fields = fieldLines{"Timeout", timeout}
			b.Arrive()
			if o := b.Admit(t.Context()); o != gate.Undecided {
				t.Errorf("%s: %s", timeout, o)
				b.End(o)
				continue
			}
			if o := b.timeouts.Expired(time.Now().UnixNano()); o != gate.Undecided {
				t.Errorf("%s: %s at once", timeout, o)
			}
			b.Forward()
			b.End(gate.Served)
		}
	})
}

func TestADeadlineThatPassesInTheQueueEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 1, QueueMaxWait: time.Minute, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:grpc-timeout")}})
		b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
		b.Reset().Fields = fieldLines{"Grpc-Timeout", "2S"}
		b.Arrive()
		wantRejected(t, b, t.Context(), gate.DeadlineExceeded, 2*time.Second)
		wantCounts(t, g.Admission, 1, 0)
	})
}

func TestARequestThatCannotFinishInTimeIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{ConcurrencyLimit: 1, QueueCapacity: 9, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		request := func(timeout string) *Blocking {
			b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
			b.Reset().Fields = fieldLines{"Timeout", timeout}
			b.Arrive()
			return b
		}
		for range 64 { // one second each
			b := request("60S")
			if o := b.Admit(t.Context()); o != gate.Undecided {
				t.Fatalf("rejected: %s", o)
			}
			b.Forward()
			time.Sleep(time.Second)
			b.End(gate.Served)
		}
		rejected := 0
		for range 64 {
			b := request("900ms")
			o := b.Admit(t.Context())
			if o == gate.DeadlineExceeded {
				rejected++
			}
			b.End(o)
		}
		if rejected < 40 { // about one in eight requests is admitted as a trial
			t.Errorf("%d of 64 requests without enough time were rejected", rejected)
		}
		holder := request("60S")
		holder.Admit(t.Context())
		// A request that takes 1 s, with a timeout of 1.5 s, must start within 0.5 s.
		late, start := request("1500ms"), time.Now()
		if o := late.Admit(t.Context()); o != gate.DeadlineExceeded || time.Since(start) != 500*time.Millisecond {
			t.Errorf("ended with %s after %v", o, time.Since(start))
		}
		late.End(gate.DeadlineExceeded)
		holder.Forward()
		holder.End(gate.Served)
		wantCounts(t, g.Admission, 0, 0)
	})
}

// Under overload, the first requests of a FIFO queue start at the latest time allowed, so
// the reserved service time decides whether their responses are in time.
func TestTheLatestStartLeavesATypicalServiceTimeBeforeTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		short, long time.Duration // service times; the requests alternate between the two
		least, most time.Duration // bounds of the wait of a request with a timeout of 1 s
	}{
		"10 and 50 ms":           {10 * time.Millisecond, 50 * time.Millisecond, 840 * time.Millisecond, 920 * time.Millisecond},
		"no more than a quarter": {10 * time.Millisecond, 5 * time.Second, 750 * time.Millisecond, 750 * time.Millisecond},
		"the shortest one":       {600 * time.Millisecond, 600 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDeadlineGate(t)
			for i := range 64 {
				took := c.short
				if i%2 == 1 {
					took = c.long
				}
				b := NewBlocking(g.Gate, func() int64 { return time.Now().UnixNano() })
				b.Reset().Target = []byte("/")
				b.Arrive()
				b.Admit(t.Context())
				b.Forward()
				end := time.Now().UnixNano()
				b.Exchange.stamp(&b.Responded)
				b.Admitted = time.Duration(end - int64(took))
				b.End(gate.Served)
			}
			g.Admission.Configure(admission.Config{Limit: 1, Capacity: 9})
			holder := NewBlocking(g.Gate, func() int64 { return time.Now().UnixNano() })
			holder.Reset()
			holder.Arrive()
			holder.Admit(t.Context())
			start := time.Now()
			o := g.do("/", "1S", time.Millisecond)
			if took := time.Since(start); o != gate.DeadlineExceeded || took < c.least || took > c.most {
				t.Errorf("%s: %s after %v, want %v to %v", name, o, took, c.least, c.most)
			}
			holder.End(gate.Served)
		})
	}
}

// deadlineGate is a gate with deadlines in the field Timeout. It runs in a synctest
// bubble.
type deadlineGate struct {
	*Gate
	t *testing.T
}

func newDeadlineGate(t *testing.T) *deadlineGate {
	g := &Gate{Config: Config{QueueCapacity: 9, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	return &deadlineGate{g, t}
}

func (g *deadlineGate) do(path, timeout string, took time.Duration) (o gate.Outcome) {
	b := NewBlocking(g.Gate, func() int64 { return time.Now().UnixNano() })
	r := b.Reset()
	r.Target, r.Fields = []byte(path), fieldLines{"Timeout", timeout}
	b.Arrive()
	if o = b.Admit(g.t.Context()); o == gate.Undecided {
		o = gate.Served
		b.Forward()
		time.Sleep(took)
	}
	b.End(o)
	return o
}

// slow sends n slow requests at once and returns when all have ended.
func (g *deadlineGate) slow(n int, path, timeout string) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { g.do(path, timeout, 5*time.Second) })
	}
	all.Wait()
}

// Rejected requests leave no samples, so the estimate recovers through trials.
func TestDeadlineRejectionsEndSoonAfterTheContainerRecovers(t *testing.T) {
	for name, pause := range map[string]time.Duration{"a request every 10 ms": 10 * time.Millisecond, "a request every 6 s": 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := newDeadlineGate(t)
			g.slow(64, "/", "60S")
			rejected := 0
			for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(pause) {
				if g.do("/", "2S", time.Millisecond) != gate.Served {
					rejected++
				}
			}
			if most := int(time.Duration(admission.TrialInterval) / (10 * time.Millisecond)); rejected > most {
				t.Errorf("%s: %d requests were rejected, want at most %d", name, rejected, most)
			}
		})
	}
}

// otherPath returns a path whose service time is estimated separately from that of the
// given path. There are only 64 estimates. The hash of a path selects one of them, and
// differs in each process. So otherPath tries paths until one selects another estimate.
func otherPath(path string) string {
	estimate := func(path string) uint64 {
		return pathHash(&Exchange{Record: gate.Record{Target: []byte(path)}}) % 64
	}
	other := "/quick?slow"
	for estimate(other) == estimate(path) {
		other = "/more" + other
	}
	return other
}

// The first request after each TrialInterval is a trial. On the path of the slow
// requests, nearly all these trials are slow requests, and so are most of the samples.
// Nevertheless, most of the quick requests must be admitted.
func TestSlowRequestsWithShortDeadlinesDoNotLockOutQuickRequests(t *testing.T) {
	for name, c := range map[string]struct {
		slow, quick string
		most        int // maximum rejections out of 100 requests
	}{
		"on another path":  {"/slow", otherPath("/slow"), 0},
		"on the same path": {"/run?slow", "/run?quick", 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newDeadlineGate(t)
			g.slow(64, c.slow, "60S")
			attack, stop := sync.WaitGroup{}, time.Now().Add(12*time.Second)
			for range 50 {
				attack.Go(func() {
					for time.Now().Before(stop) {
						g.do(c.slow, "1S", 5*time.Second)
						time.Sleep(3 * time.Millisecond)
					}
				})
			}
			rejected := 0
			for range 100 {
				time.Sleep(100*time.Millisecond + time.Microsecond)
				if g.do(c.quick, "1S", time.Millisecond) != gate.Served {
					rejected++
				}
			}
			attack.Wait()
			if rejected > c.most {
				t.Errorf("%s: %d of 100 quick requests were rejected, want at most %d", name, rejected, c.most)
			}
		})
	}
}

func TestASlowContainerGetsFewTrials(t *testing.T) {
	s := new(admission.ServiceTimes)
	now, trials := int64(1e9), 0
	for range 10_000 { // 10 s in total
		now += int64(time.Millisecond)
		s.Add(0, now, int64(3*time.Second))
		if shortest, _ := s.Estimate(0, now); shortest > 0 && s.TryTrial(0, now) {
			trials++
		}
	}
	// 10,000 requests arrive within 10 s. The first request after each TrialInterval of
	// 250 ms is a trial. There are at most 40 of these. Of the other requests, about one
	// in eight is a trial. There are about 1,250 of these.
	if trials < 1000 || trials > 1600 {
		t.Errorf("%d trials of 10,000 requests", trials)
	}
}

func TestAServiceTimeIsEstimatedOnlyFromEnoughRecentSamples(t *testing.T) {
	s := new(admission.ServiceTimes)
	want := func(at, want time.Duration) {
		t.Helper()
		if got, _ := s.Estimate(7, int64(at)); got != int64(want) {
			t.Errorf("at %v: %v, want %v", at, time.Duration(got), want)
		}
	}
	for range 7 {
		s.Add(7, int64(time.Second), int64(2*time.Second))
		s.Add(8, int64(time.Second), int64(time.Millisecond)) // another path
	}
	want(time.Second, 0)
	s.Add(7, int64(5*time.Second), int64(3*time.Second))
	want(5*time.Second, 2*time.Second)
	want(10*time.Second, 2*time.Second)
	want(11*time.Second, 0) // the first seven samples are older than 10 s
	for range 7 {
		s.Add(7, int64(11*time.Second), int64(4*time.Second))
	}
	want(11*time.Second, 3*time.Second)
	want(15*time.Second, 0)
}

// slowUpload is a client that sends one piece of its body per step.
type slowUpload struct {
	Downstream
	pieces int
}

func (c *slowUpload) Request() (*wire.Request, netip.Addr) { return nil, netip.Addr{} }
func (c *slowUpload) Disconnected() bool                   { return false }
func (c *slowUpload) Closing() bool                        { return false }
func (c *slowUpload) Failed() bool                         { return false }
func (c *slowUpload) Broken() bool                         { return false }
func (c *slowUpload) ExpectsContinue() bool                { return false }
func (c *slowUpload) Ended() bool                          { return c.pieces == 0 }
func (c *slowUpload) FullyRead() bool                      { return c.pieces == 0 }
func (c *slowUpload) Consumed() int64                      { return 0 }
func (c *slowUpload) Respond(*wire.Response)               {}
func (c *slowUpload) Flush() (bool, bool)                  { return false, true }

func (c *slowUpload) Pump(up Sink) bool {
	container := up.(*scriptedContainer)
	if c.pieces == 0 || container.step == container.pumped {
		return false
	}
	container.pumped = container.step
	c.pieces--
	return true
}

// scriptedContainer sends the head and the body of its response, each in a given step.
type scriptedContainer struct {
	Upstream
	step, pumped, respondsAt, bodyAt, status int
	bodySent                                 bool
}

func (u *scriptedContainer) Connect(*Exchange, int64, bool) (Upstream, int64, gate.Outcome) {
	return u, 0, gate.Undecided
}
func (u *scriptedContainer) Cancel(*Exchange)                          {}
func (u *scriptedContainer) Send(*wire.Request, netip.Addr, Sink) bool { return true }
func (u *scriptedContainer) Response() *wire.Response                  { return nil }
func (u *scriptedContainer) Sent() bool                                { return true }
func (u *scriptedContainer) Status() int                               { return u.status }
func (u *scriptedContainer) Consumed() int64                           { return int64(min(1, max(0, u.step-u.bodyAt+1))) }
func (u *scriptedContainer) Ended() bool                               { return u.step >= u.bodyAt }
func (u *scriptedContainer) Failed() bool                              { return false }
func (u *scriptedContainer) Broken() bool                              { return false }
func (u *scriptedContainer) StoppedReading() bool                      { return false }
func (u *scriptedContainer) Complete(bool)                             {}
func (u *scriptedContainer) Abort()                                    {}
func (u *scriptedContainer) Flush() (bool, bool)                       { return false, true }

func (u *scriptedContainer) Pump(Sink) (moved bool) {
	moved = u.bodyAt > 0 && u.step >= u.bodyAt && !u.bodySent
	u.bodySent = u.bodySent || moved
	return moved
}

func (u *scriptedContainer) Receive() (HeadState, gate.Outcome) {
	if u.step < u.respondsAt {
		return HeadAwaited, gate.Undecided
	}
	return HeadFinal, gate.Undecided
}

func TestServiceTimeExcludesTheUpload(t *testing.T) {
	for _, c := range []struct {
		name               string
		pieces, respondsAt int
		status             int
		want               time.Duration
		none               bool
	}{
		{"a request without a body, response after 2 s", 0, 3, 200, 2 * time.Second, false},
		{"an upload of 5 s, immediate response", 6, 6, 200, 0, false},
		{"an upload of 5 s, response after 2 s", 6, 8, 200, 2 * time.Second, false},
		{"a stream with a successful response while the client still sends", 9, 4, 200, 0, false},
		{"an upload that the container rejects before its end", 9, 4, 408, 0, true},
	} {
		g := &Gate{Config: Config{RequestTimeout: time.Minute, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout"), AutoLimit: &admission.LimitRange{Min: 4, Max: 4}}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		now := int64(1e9)
		x := new(Exchange)
		x.Bind(g, func() int64 { return now }, func() {}, nil)
		up := &scriptedContainer{respondsAt: c.respondsAt, status: c.status}
		x.Begin(now, &slowUpload{pieces: c.pieces}, up)
		for e := Ongoing; e == Ongoing && up.step < 60; now += int64(time.Second) {
			up.step++
			e, _, _ = x.Step(now)
		}
		if x.State() != StateIdle {
			t.Fatalf("%s: the exchange has not ended", c.name)
		}
		n, sum := g.settings.Load().overload.limiter.Samples()
		if c.none {
			if n != 0 {
				t.Errorf("%s: counted as a sample", c.name)
			}
			continue
		}
		if n != 1 || sum != c.want {
			t.Errorf("%s: a sample of %v (%v samples), want %v", c.name, sum, n, c.want)
		}
	}
}

// A model server sends the head of an event stream long before the first event.
func TestServiceTimeEndsWithTheFirstByteOfTheBody(t *testing.T) {
	g := &Gate{Config: Config{RequestTimeout: time.Minute, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	now := int64(1e9)
	for range 8 {
		x := new(Exchange)
		x.Bind(g, func() int64 { return now }, func() {}, nil)
		x.Target = []byte("/")
		up := &scriptedContainer{respondsAt: 3, bodyAt: 6, status: 200}
		begun := now
		x.Begin(begun, &slowUpload{}, up)
		for e := Ongoing; e == Ongoing && up.step < 60; {
			up.step++
			e, _, _ = x.Step(begun + int64(up.step-1)*int64(100*time.Millisecond))
			now += int64(100 * time.Millisecond)
		}
	}
	x := &Exchange{Record: gate.Record{Target: []byte("/")}}
	if shortest, typical := g.settings.Load().overload.service.Estimate(pathHash(x), now); shortest != int64(500*time.Millisecond) || typical < shortest {
		t.Errorf("shortest %v, typical %v, want 500ms from the request to the first byte", time.Duration(shortest), time.Duration(typical))
	}
}

func TestAShedRequestEndsWithQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 2, Overload: OverloadConfig{FairBy: mustSelect(t, "header:tenant")}})
		var mu sync.Mutex
		var ended []string
		admit := func(name, tenant string) {
			b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
			b.Reset().Fields = fieldLines{"Tenant", tenant}
			b.Arrive()
			go func() {
				o := b.Admit(t.Context())
				if o == gate.Undecided {
					b.Forward()
					o = gate.Served
				}
				mu.Lock()
				ended = append(ended, fmt.Sprint(name, " ", o))
				mu.Unlock()
				b.End(o)
			}()
			synctest.Wait()
		}
		admit("a1", "a")
		admit("a2", "a")
		admit("b1", "b")
		g.Admission.Release()
		synctest.Wait()
		if want := []string{"a2 queue-full", "a1 served", "b1 served"}; !slices.Equal(ended, want) {
			t.Errorf("got %q, want %q", ended, want)
		}
		wantCounts(t, g.Admission, 0, 0)
		if g.Drain.Requests() != 0 {
			t.Errorf("%d requests open", g.Drain.Requests())
		}
	})
}

func TestTheAdaptiveLimitAdjustsTheConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{QueueCapacity: 100, Overload: OverloadConfig{AutoLimit: &admission.LimitRange{Min: 2, Max: 50}}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		if got, want := g.Admission.Limit(), admission.NewAutoLimit(admission.LimitRange{Min: 2, Max: 50}).Limit(); got != want {
			t.Fatalf("the limit starts at %d, want %d", got, want)
		}
		done := time.Now().Add(5 * time.Second)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
				for time.Now().Before(done) {
					b.Reset()
					b.Arrive()
					if o := b.Admit(t.Context()); o != gate.Undecided {
						t.Errorf("rejected: %s", o)
						b.End(o)
						return
					}
					b.Forward()
					time.Sleep(10 * time.Millisecond)
					b.End(gate.Served)
				}
			})
		}
		all.Wait()
		if got := g.Admission.Limit(); got < 16 || got > 50 {
			t.Errorf("a limit of %d for 20 clients of a container that does not slow down", got)
		}
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestARequestShedByAStandingQueueEndsWithQueueWaitExpired(t *testing.T) {
	now := int64(1)
	clock := func() int64 { return now }
	g := &Gate{Config: Config{Admission: admission.New(admission.Config{Limit: 1, CapacityPerSlot: 10, ShedStanding: true, Clock: clock})}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	var all []*Exchange
	begin := func() {
		x := new(Exchange)
		x.Bind(g, clock, func() {}, nil)
		x.Begin(now, nil, nil)
		if o := x.enqueue(); o != gate.Undecided {
			t.Fatalf("request %d: %s", len(all), o)
		}
		all = append(all, x)
	}
	for range 4 {
		begin()
	}
	now += int64(time.Second)
	all[0].End(gate.Served)
	if o := all[1].queued(now); o != gate.Undecided || all[1].State() != StateConnecting {
		t.Fatalf("the first queued request: %s, state %d", o, all[1].State())
	}
	begin() // one per served request
	now += int64(time.Second)
	all[1].End(gate.Served)
	for i, want := range map[int]gate.Outcome{2: gate.QueueWaitExpired, 3: gate.QueueWaitExpired, 4: gate.Undecided} {
		o := all[i].queued(now)
		if o != want {
			t.Errorf("request %d: %s, want %s", i, o, want)
		}
		all[i].End(o)
	}
	if a := g.Admission; a.InFlight() != 0 || a.QueueDepth() != 0 {
		t.Errorf("%d in flight, %d queued", a.InFlight(), a.QueueDepth())
	}
}
