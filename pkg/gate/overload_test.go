package gate

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fieldLines are header fields as they came.
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

func TestASelectorPicksTheSamePartForEqualRequestsAlone(t *testing.T) {
	x := func(target, peer string, fields ...string) *Exchange {
		return &Exchange{Record: Record{Target: []byte(target), Peer: netip.MustParseAddrPort(peer), Fields: fieldLines(fields)}}
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
		{"path:1", x("/a?x", "192.0.2.9:1"), x("/b/b/c", "192.0.2.1:1")},
		{"path:2", x("/x/b", "192.0.2.9:1"), x("/a", "192.0.2.1:1")},
		{"path:3", x("/x/y/c", "192.0.2.9:1"), x("/a/b?/c", "192.0.2.1:1")},
	} {
		s := mustSelect(t, c.by)
		if s.Key(base) != s.Key(c.same) || s.Key(base) == s.Key(c.other) {
			t.Errorf("%s: equal %v, other equal %v", c.by, s.Key(base) == s.Key(c.same), s.Key(base) == s.Key(c.other))
		}
		if s.String() != c.by {
			t.Errorf("%s is written %s", c.by, s)
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

func TestAPriorityIsBelievedFromTrustedPeersAlone(t *testing.T) {
	g := &Gate{Config: Config{
		ConcurrencyLimit: 1, QueueCapacity: 1, Overload: OverloadConfig{PriorityBy: mustSelect(t, "header:priority")},
		TrustedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]uint8{"10.1.1.1:1": 0, "192.0.2.1:1": DefaultClass} {
		b := arrived(g, time.Now())
		b.Peer, b.Fields = netip.MustParseAddrPort(peer), fieldLines{"Priority", "u=0"}
		g.overload.turn(&b.Exchange)
		if b.claim.waiter.Class != want {
			t.Errorf("%s: class %d, want %d", peer, b.claim.waiter.Class, want)
		}
		b.End(ClientGone)
	}
}

func TestATimeoutOfTheClientIsReadInEveryForm(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1S": time.Second, "250m": 250 * time.Millisecond, "3M": 3 * time.Minute, "1H": time.Hour, "5u": 5 * time.Microsecond, "7n": 7,
		"2": 2 * time.Second, "0": 0, "1.5s": 1500 * time.Millisecond, "300ms": 300 * time.Millisecond, "99999999S": 99999999 * time.Second,
	} {
		if got, ok := parseTimeout([]byte(value)); !ok || got != int64(want) {
			t.Errorf("%q: %v, %v, want %v", value, time.Duration(got), ok, want)
		}
	}
	for _, bad := range []string{"", "S", "x", "-1s", "1x", "12345678901234567890123", "1 S", "m5"} {
		if got, ok := parseTimeout([]byte(bad)); ok {
			t.Errorf("%q is read as %v", bad, time.Duration(got))
		}
	}
}

func TestADeadlineThatPassesInTheQueueEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 1, QueueMaxWait: time.Minute, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:grpc-timeout")}})
		b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
		b.Describe().Fields = fieldLines{"Grpc-Timeout", "2S"}
		b.Arrive()
		wantRefused(t, b, t.Context(), DeadlineExceeded, 2*time.Second)
		wantCounts(t, g.Admission, 1, 0)
	})
}

func TestARequestThatCannotFinishInTimeIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{ConcurrencyLimit: 1, QueueCapacity: 9, Overload: OverloadConfig{DeadlineBy: mustSelect(t, "header:timeout")}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		request := func(timeout string) *Blocking {
			b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
			b.Describe().Fields = fieldLines{"Timeout", timeout}
			b.Arrive()
			return b
		}
		for range 64 { // each takes a second
			b := request("60S")
			if o, refused := b.Admit(t.Context()); refused {
				t.Fatalf("refused: %s", o)
			}
			b.Forward()
			time.Sleep(time.Second)
			b.End(Served)
		}
		wantRefused(t, request("900ms"), t.Context(), DeadlineExceeded, 0)
		holder := request("60S")
		holder.Admit(t.Context())
		// There is time for a second of work until half a second from now.
		late, start := request("1500ms"), time.Now()
		if o, refused := late.Admit(t.Context()); !refused || o != DeadlineExceeded || time.Since(start) != 500*time.Millisecond {
			t.Errorf("refused %v with %s after %v", refused, o, time.Since(start))
		}
		late.End(DeadlineExceeded)
		holder.Forward()
		holder.End(Served)
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestOneThatIsShedIsToldThatTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 2, Overload: OverloadConfig{FairBy: mustSelect(t, "header:tenant")}})
		var mu sync.Mutex
		var ended []string
		admit := func(name, tenant string) {
			b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
			b.Describe().Fields = fieldLines{"Tenant", tenant}
			b.Arrive()
			go func() {
				o, refused := b.Admit(t.Context())
				mu.Lock()
				ended = append(ended, fmt.Sprint(name, " ", refused, " ", o))
				mu.Unlock()
				if !refused {
					b.Forward()
				}
				b.End(o)
			}()
			synctest.Wait()
		}
		admit("a1", "a")
		admit("a2", "a")
		admit("b1", "b")
		g.Admission.End()
		synctest.Wait()
		if want := []string{"a2 true queue-full", "a1 false served", "b1 false served"}; !slices.Equal(ended, want) {
			t.Errorf("got %q, want %q", ended, want)
		}
		wantCounts(t, g.Admission, 0, 0)
		if g.Drain.Requests() != 0 {
			t.Errorf("%d requests open", g.Drain.Requests())
		}
	})
}

func TestAnAutoLimitMovesTheLimitOfTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{QueueCapacity: 100, Overload: OverloadConfig{AutoLimit: &LimitRange{2, 50}}}}
		if err := g.Init(); err != nil {
			t.Fatal(err)
		}
		if got := g.Admission.Limit(); got != limitStart {
			t.Fatalf("it starts at %d, want %d", got, limitStart)
		}
		done := time.Now().Add(5 * time.Second)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				b := NewBlocking(g, func() int64 { return time.Now().UnixNano() })
				for time.Now().Before(done) {
					b.Describe()
					b.Arrive()
					if o, refused := b.Admit(t.Context()); refused {
						t.Errorf("refused: %s", o)
						b.End(o)
						return
					}
					b.Forward()
					time.Sleep(10 * time.Millisecond)
					b.End(Served)
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
