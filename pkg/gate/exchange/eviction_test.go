package exchange

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

func TestAnEvictionRuleIsParsedAndFormatted(t *testing.T) {
	for text, want := range map[string]Eviction{
		"class>=6,after=2s":            {Class: 6, After: 2 * time.Second, Rate: 1},
		" after=0s , class>=7":         {Class: 7, Rate: 1},
		"class>=1,after=1m,rate=2.5":   {Class: 1, After: time.Minute, Rate: 2.5},
		"rate=0.01,class>=6,after=1ms": {Class: 6, After: time.Millisecond, Rate: 0.01},
	} {
		got, err := ParseEviction(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := ParseEviction(got.String()); err != nil || again != got {
			t.Errorf("%q is formatted as %q, which is parsed as %+v, %v", text, got, again, err)
		}
	}
	for _, bad := range []string{
		"", "class>=6", "after=2s", "class>=0,after=2s", "class>=8,after=2s", "class>=x,after=2s", "class=6,after=2s", "class>6,after=2s",
		"class>=6,after=2", "class>=6,after=-1s", "class>=6,after=9999999h", "class>=6,after=2s,rate=0", "class>=6,after=2s,rate=-1", "class>=6,after=2s,rate=NaN",
		"class>=6,after=2s,rate=1001", "class>=6,after=2s,rate=x", "class>=6,class>=7,after=2s", "class>=6,after=2s,", "class>=6,after=2s,burst=1",
	} {
		if e, err := ParseEviction(bad); err == nil {
			t.Errorf("%q is parsed as %+v", bad, e)
		}
	}
	if text := (Eviction{}).String(); text != "" {
		t.Errorf("no eviction is formatted as %q", text)
	}
}

func TestAnEvictionRuleNeedsPriorities(t *testing.T) {
	for _, c := range []struct {
		overload OverloadConfig
		want     string
	}{
		{OverloadConfig{Evict: Eviction{Class: 6, Rate: 1}}, "Overload.PriorityBy"},
		{OverloadConfig{Evict: Eviction{Class: 8, Rate: 1}, PriorityBy: mustSelect(t, "header:p")}, "want a class"},
		{OverloadConfig{Evict: Eviction{Class: 6}, PriorityBy: mustSelect(t, "header:p")}, "a rate"},
		{OverloadConfig{Evict: Eviction{Class: 6, Rate: 1, After: -1}, PriorityBy: mustSelect(t, "header:p")}, "no negative wait"},
	} {
		if err := (&Config{Overload: c.overload}).Check(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Overload.Evict") {
			t.Errorf("%+v: %v, want Overload.Evict and %s", c.overload, err, c.want)
		}
	}
}

// Requests in flight are listed oldest first, as in the doc comment of Eviction.
func TestTheYoungestRequestOfASheddableAndLowerClassIsTheVictim(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		sheddable, waiting uint8
		inFlight           string
		want               int
	}{
		{6, 0, "03676", 4},
		{6, 0, "03667", 4},
		{6, 3, "660", 1},
		{6, 6, "676", 1},
		{6, 6, "66", none},
		{6, 7, "6677", none},
		{6, 0, "35", none},
		{6, 0, "", none},
		{1, 0, "71", 1},
		{1, 0, "00", none},
		{1, 4, "5534", 1},
		{7, 0, "67666", 1},
	} {
		if got := victimOf(Eviction{Class: c.sheddable}, c.waiting, c.inFlight); got != c.want {
			t.Errorf("class %d evicts of %s from class %d on number %d, want %d", c.waiting, c.inFlight, c.sheddable, got, c.want)
		}
	}
	// For random classes, victimOf must find the same request as a linear search.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		e, waiting := Eviction{Class: uint8(1 + rng.IntN(7))}, uint8(rng.IntN(8))
		inFlight := ""
		for range rng.IntN(10) {
			inFlight += strconv.Itoa(rng.IntN(8))
		}
		want := none
		for i, c := range []byte(inFlight) {
			if class := c - '0'; class >= e.Class && class > waiting {
				want = i
			}
		}
		if got := victimOf(e, waiting, inFlight); got != want {
			t.Fatalf("class %d evicts of %s from class %d on number %d, want %d", waiting, inFlight, e.Class, got, want)
		}
	}
}

// victimOf returns the index of the victim in the string inFlight; -1 = none. Each digit
// of inFlight is the class of a request in flight, oldest first. The parameter waiting is
// the class of the queued request.
func victimOf(e Eviction, waiting uint8, inFlight string) int {
	var youngest [admission.Classes]uint64
	for i, c := range []byte(inFlight) {
		youngest[c-'0'] = uint64(i) + 1
	}
	class, ok := e.victim(waiting, &youngest)
	if !ok {
		return -1
	}
	return int(youngest[class]) - 1
}

func TestTheTokenBucketMatchesItsUsualForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		burst, interval := 1+rng.IntN(5), int64(1+rng.IntN(1000))
		var b tokenBucket
		// The usual form of a token bucket has a number of tokens and the time of the
		// last refill. It is full at the beginning.
		tokens, filled := float64(burst), int64(1)
		now := int64(1)
		for range 200 {
			now += rng.Int64N(2 * interval)
			tokens = min(tokens+float64(now-filled)/float64(interval), float64(burst))
			filled = now
			next := b.take(now, interval, burst)
			if has := tokens > 1-1e-6; has != (next == 0) {
				t.Fatalf("burst %d, interval %d: %v tokens at %d, but the next one is at %d", burst, interval, tokens, now, next)
			}
			if next == 0 {
				tokens--
				continue
			}
			if missing := float64(next-now) / float64(interval); missing < 1-tokens-1e-6 || missing > 1-tokens+1/float64(interval) {
				t.Fatalf("burst %d, interval %d: %v tokens at %d, but the next one is at %d", burst, interval, tokens, now, next)
			}
		}
	}
}

// entry returns an entry that counts its wake-ups.
func entry(woken *int) *evictable { return &evictable{wake: func() { *woken++ }} }

func TestAQueuedRequestEvictsOneRequestAtATime(t *testing.T) {
	var r evictions
	rule := Eviction{Class: 6, Rate: 1}
	var wakes [4]int
	old, young, waiting, other := entry(&wakes[0]), entry(&wakes[1]), entry(&wakes[2]), entry(&wakes[3])
	r.add(old, 6)
	r.add(young, 7)
	if next := r.evict(waiting, 0, rule, 4, 1); next != 0 || !young.evicted.Load() || old.evicted.Load() || wakes[1] != 1 {
		t.Fatalf("next at %d, evicted %v and %v, %d wake-ups; want the younger one", next, old.evicted.Load(), young.evicted.Load(), wakes[1])
	}
	if r.evict(waiting, 0, rule, 4, 2); old.evicted.Load() {
		t.Error("a second request is evicted before the first one has released its slot")
	}
	if r.evict(other, 6, rule, 4, 2); old.evicted.Load() {
		t.Error("a request of class 6 evicts one of class 6")
	}
	r.leave(young)
	if wakes[2] != 1 {
		t.Errorf("the waiting request is woken %d times at the end of its victim", wakes[2])
	}
	if r.evict(waiting, 0, rule, 4, 3); !old.evicted.Load() {
		t.Error("no second victim, although the first one was not enough")
	}
	r.leave(waiting) // the request got a slot
	r.leave(old)
	r.leave(other)
	if wakes[2] != 1 || old.evicted.Load() || young.evicted.Load() {
		t.Errorf("woken %d times, marked %v and %v at the end", wakes[2], old.evicted.Load(), young.evicted.Load())
	}
}

func TestTheHighestOverdueClassGetsTheNextToken(t *testing.T) {
	var r evictions
	rule := Eviction{Class: 6, Rate: 1}
	var wakes [6]int
	low, high := entry(&wakes[0]), entry(&wakes[1])
	victims := []*evictable{entry(&wakes[2]), entry(&wakes[3]), entry(&wakes[4])}
	for _, v := range victims {
		r.add(v, 7)
	}
	first := entry(&wakes[5])
	r.evict(first, 5, rule, 1, 1) // takes the only token
	second := int64(time.Second)
	if next := r.evict(low, 5, rule, 1, 2); next != second+1 {
		t.Fatalf("the next token is at %d, want %d", next, second+1)
	}
	if next := r.evict(high, 0, rule, 1, 3); next != second+1 {
		t.Fatalf("the next token is at %d, want %d", next, second+1)
	}
	if next := r.evict(low, 5, rule, 1, second+1); next != 0 || victims[1].evicted.Load() {
		t.Fatalf("class 5 gets the token before class 0 (next at %d)", next)
	}
	if r.evict(high, 0, rule, 1, second+1); !victims[1].evicted.Load() || wakes[0] != 1 {
		t.Fatalf("class 0 does not get the token, class 5 is woken %d times", wakes[0])
	}
	if next := r.evict(low, 5, rule, 1, second+2); next != 2*second+1 {
		t.Errorf("the next token is at %d, want %d", next, 2*second+1)
	}
}

func TestAnOverdueRequestIsWokenWhenASheddableRequestIsAdmitted(t *testing.T) {
	var r evictions
	var wakes [2]int
	waiting, late := entry(&wakes[0]), entry(&wakes[1])
	if next := r.evict(waiting, 0, Eviction{Class: 6, Rate: 1}, 1, 1); next != 0 {
		t.Errorf("an eviction without a victim is tried at %d, want when woken", next)
	}
	r.add(late, 6)
	if wakes[0] != 1 {
		t.Errorf("woken %d times", wakes[0])
	}
}

// steppedClient is a client that reads everything and sends nothing.
type steppedClient struct {
	Downstream
	body         []byte
	full         bool // accepts no bytes
	disconnected bool
	dropped      bool
}

func (c *steppedClient) Pump(Sink) bool         { return false }
func (c *steppedClient) Consumed() int64        { return 0 }
func (c *steppedClient) Ended() bool            { return true }
func (c *steppedClient) FullyRead() bool        { return true }
func (c *steppedClient) Failed() bool           { return false }
func (c *steppedClient) Malformed() bool        { return false }
func (c *steppedClient) Flush() (bool, bool)    { return false, !c.full }
func (c *steppedClient) Capacity() int          { return 1 << 20 }
func (c *steppedClient) Finish([]byte)          {}
func (c *steppedClient) Broken() bool           { return false }
func (c *steppedClient) Disconnected() bool     { return c.disconnected }
func (c *steppedClient) Closing() bool          { return false }
func (c *steppedClient) ExpectsContinue() bool  { return false }
func (c *steppedClient) Respond(*wire.Response) {}
func (c *steppedClient) Drop()                  { c.dropped = true }
func (c *steppedClient) Write(p []byte) int {
	c.body = append(c.body, p...)
	return len(p)
}
func (c *steppedClient) Request() (*wire.Request, netip.Addr) { return &wire.Request{}, netip.Addr{} }

// steppedContainer responds at the step and in the way that the test sets.
type steppedContainer struct {
	Upstream
	head     string
	response wire.Response
	pending  string // body bytes that Pump has not written yet
	ended    bool
	aborted  bool
	hungUp   int
	closed   bool // the container closed the connection after HangUp
}

func (u *steppedContainer) Send(*wire.Request, netip.Addr, Sink) bool { return false }
func (u *steppedContainer) Receive() (HeadState, gate.Outcome) {
	switch {
	case u.closed:
		return HeadFailed, gate.UpstreamClosed
	case u.head == "":
		return HeadAwaited, gate.Undecided
	}
	if complete, err := u.response.ScanResponse([]byte(u.head)); !complete || err != nil {
		panic(err)
	}
	if err := u.response.Parse([]byte("GET")); err != nil {
		panic(err)
	}
	u.head = ""
	return HeadFinal, gate.Undecided
}
func (u *steppedContainer) Response() *wire.Response { return &u.response }
func (u *steppedContainer) Status() int              { return u.response.Status }
func (u *steppedContainer) Pump(dst Sink) bool {
	n := 0
	if u.pending != "" {
		n = dst.Write([]byte(u.pending))
		u.pending = u.pending[n:]
	}
	return n > 0
}
func (u *steppedContainer) Consumed() int64         { return 0 }
func (u *steppedContainer) Ended() bool             { return u.ended && u.pending == "" }
func (u *steppedContainer) Failed() bool            { return u.closed && !u.ended }
func (u *steppedContainer) Broken() bool            { return false }
func (u *steppedContainer) Flush() (bool, bool)     { return false, true }
func (u *steppedContainer) Sent() bool              { return true }
func (u *steppedContainer) StoppedReading() bool    { return false }
func (u *steppedContainer) ReadAhead() (bool, bool) { return false, u.ended }
func (u *steppedContainer) Complete(bool)           {}
func (u *steppedContainer) Abort()                  { u.aborted = true }
func (u *steppedContainer) HangUp(cancel bool) {
	if cancel {
		u.hungUp++
	}
}

func (u *steppedContainer) Connect(*Exchange, int64, bool) (Upstream, int64, gate.Outcome) {
	return u, 0, gate.Undecided
}
func (u *steppedContainer) Cancel(*Exchange) {}

// stepped is an exchange whose steps the test runs.
type stepped struct {
	Exchange
	client    steppedClient
	container steppedContainer
	wakes     int
	ending    StepResult
	outcome   gate.Outcome
}

// newStepped begins a request of a class and runs one step.
func newStepped(g *Gate, class int, now int64) *stepped {
	s := &stepped{}
	s.Bind(g, func() int64 { return now }, func() { s.wakes++ }, nil)
	s.begin(class, now)
	return s
}

func (s *stepped) begin(class int, now int64) {
	s.client, s.container, s.outcome, s.ending = steppedClient{}, steppedContainer{}, gate.Undecided, Ongoing
	s.Reset()
	s.Protocol, s.Fields = "HTTP/1.1", fieldLines{"Priority", strconv.Itoa(class)}
	s.Peer = netip.MustParseAddrPort("192.0.2.1:1")
	s.Begin(now, &s.client, &s.container)
	s.step(now)
}

func (s *stepped) step(now int64) (next int64) {
	s.ending, s.outcome, next = s.Step(now)
	return next
}

func (s *stepped) want(t *testing.T, e StepResult, o gate.Outcome) {
	t.Helper()
	if s.ending != e || s.outcome != o {
		t.Errorf("ending %d with outcome %s, want %d with %s", s.ending, s.outcome, e, o)
	}
}

// evictingGate returns a gate with n slots. Requests of classes 6 and 7 are sheddable. A
// request may evict another one after 2 s in the queue.
func evictingGate(t testing.TB, n int, c Config) *Gate {
	t.Helper()
	priority, err := ParseSelector("header:priority")
	if err != nil {
		t.Fatal(err)
	}
	c.ConcurrencyLimit, c.QueueCapacity = n, 10
	c.Overload.PriorityBy, c.Overload.Evict = priority, Eviction{Class: 6, After: 2 * time.Second, Rate: 1}
	g := &Gate{Config: c}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	return g
}

const second = int64(time.Second)

func TestAnOverdueQueuedRequestEvictsARequestInFlight(t *testing.T) {
	g := evictingGate(t, 2, Config{})
	old, young := newStepped(g, 6, second), newStepped(g, 7, second)
	waiting := newStepped(g, 0, 2*second)
	if next := waiting.step(3 * second); next != 4*second {
		t.Fatalf("the next step of the queued request is at %d, want after 2 s in the queue", next)
	}
	if young.step(3 * second); young.wakes > 0 {
		t.Fatal("woken before the wait is over")
	}
	waiting.step(4 * second)
	if young.wakes != 1 || old.wakes != 0 {
		t.Fatalf("the younger request is woken %d times, the older one %d times", young.wakes, old.wakes)
	}
	young.step(4 * second)
	young.want(t, Rejected, gate.Evicted)
	if !young.container.aborted || g.Admission.InFlight() != 2 || waiting.wakes == 0 {
		t.Errorf("aborted %v, %d in flight, waiting request woken %d times", young.container.aborted, g.Admission.InFlight(), waiting.wakes)
	}
	if waiting.step(4 * second); waiting.State() != StateAwaiting {
		t.Errorf("the waiting request is in state %s", waiting.State())
	}
	if r := young.RejectionReply(gate.Evicted, 4*second); r.Status != 503 || r.Retry != 1 || r.Outcome.String() != "evicted" {
		t.Errorf("reply %+v", r)
	}
	old.step(5 * second)
	old.want(t, Ongoing, gate.Undecided)
}

func TestAnEvictionAfterTheResponseHeadCutsOffTheResponse(t *testing.T) {
	g := evictingGate(t, 1, Config{})
	victim := newStepped(g, 6, second)
	victim.container.head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
	victim.container.pending = "part"
	victim.step(second)
	waiting := newStepped(g, 0, second)
	waiting.step(3 * second)
	victim.step(3 * second)
	victim.want(t, CutOff, gate.Evicted)
	if string(victim.client.body) != "part" || victim.Status != 200 {
		t.Errorf("body %q, status %d", victim.client.body, victim.Status)
	}
}

func TestACompleteResponseIsNotEvicted(t *testing.T) {
	g := evictingGate(t, 1, Config{})
	victim := newStepped(g, 6, second)
	waiting := newStepped(g, 0, second)
	waiting.step(3 * second)
	victim.container.head, victim.container.ended = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", true
	victim.container.pending = "full"
	victim.step(3 * second)
	victim.want(t, Completed, gate.Served)
	if waiting.step(3 * second); waiting.State() != StateAwaiting {
		t.Errorf("the waiting request is in state %s", waiting.State())
	}
}

func TestUnsheddableRequestsAreNotEvicted(t *testing.T) {
	unlimited, err := ParsePathPattern("/free")
	if err != nil {
		t.Fatal(err)
	}
	for name, keep := range map[string]func(*stepped){
		"a class that is not sheddable": func(s *stepped) {},
		"a tunnel": func(s *stepped) {
			s.container.head = ""
			s.to(StateTunnelling)
			s.settings.overload.endFlight(&s.Exchange)
		},
	} {
		g := evictingGate(t, 1, Config{UnlimitedPaths: []PathPattern{unlimited}})
		class := 5
		if name == "a tunnel" {
			class = 7
		}
		s := newStepped(g, class, second)
		keep(s)
		waiting := newStepped(g, 0, second)
		waiting.step(3 * second)
		if s.isEvicted() || s.wakes > 0 {
			t.Errorf("%s: evicted", name)
		}
	}
	g := evictingGate(t, 1, Config{UnlimitedPaths: []PathPattern{unlimited}})
	free := &stepped{}
	free.Bind(g, func() int64 { return second }, func() { free.wakes++ }, nil)
	free.Protocol, free.Target, free.Fields = "HTTP/1.1", []byte("/free"), fieldLines{"Priority", "7"}
	free.Begin(second, &free.client, &free.container)
	free.step(second)
	newStepped(g, 5, second)
	newStepped(g, 0, second).step(3 * second)
	if !free.Unlimited || free.isEvicted() || free.wakes > 0 {
		t.Errorf("a request for an unlimited path is evicted")
	}
}

func TestAPriorityClassSentByAnUntrustedPeerDoesNotAffectEviction(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} // excludes the peers of these requests
	g := evictingGate(t, 1, Config{TrustedSources: trusted})
	s := newStepped(g, 7, second)
	newStepped(g, 0, second).step(3 * second)
	if s.isEvicted() {
		t.Error("a forged class makes a request sheddable")
	}

	g = evictingGate(t, 1, Config{TrustedSources: trusted})
	g.Config.Overload.Evict.Class = 3 // makes the default class sheddable
	if err := g.Apply(&g.Config); err != nil {
		t.Fatal(err)
	}
	s = newStepped(g, 0, second)
	newStepped(g, 0, second).step(3 * second)
	if s.isEvicted() {
		t.Error("a forged class evicts a request of the default class")
	}
}

func TestWithAHardLimitAnEvictedRequestHoldsItsSlotUntilTheContainerCloses(t *testing.T) {
	for _, c := range []struct {
		name string
		head string
		want StepResult
	}{
		{"before the response head", "", Rejected},
		{"after the response head", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", CutOff},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := evictingGate(t, 1, Config{HardConcurrency: true})
			victim := newStepped(g, 6, second)
			victim.container.head = c.head
			victim.step(second)
			waiting := newStepped(g, 0, second)
			waiting.step(3 * second)
			victim.step(3 * second)
			victim.want(t, Ongoing, gate.Undecided)
			if victim.State() != StateAbandoned || victim.container.hungUp != 1 || victim.client.dropped {
				t.Fatalf("state %s, told to stop %d times, client dropped %v", victim.State(), victim.container.hungUp, victim.client.dropped)
			}
			if waiting.step(4 * second); waiting.State() != StateQueued {
				t.Fatalf("the waiting request is in state %s, although the container works", waiting.State())
			}
			victim.container.closed = true
			victim.step(5 * second)
			victim.want(t, c.want, gate.Evicted)
			if waiting.step(5 * second); waiting.State() != StateAwaiting {
				t.Errorf("the waiting request is in state %s", waiting.State())
			}
		})
	}
	t.Run("the client disconnects meanwhile", func(t *testing.T) {
		g := evictingGate(t, 1, Config{HardConcurrency: true})
		victim := newStepped(g, 6, second)
		newStepped(g, 0, second).step(3 * second)
		victim.step(3 * second)
		victim.container.closed, victim.client.disconnected = true, true
		victim.step(5 * second)
		victim.want(t, Closed, gate.ClientGone)
	})
}

func TestEvictionsContinueWithinTheBudgetUntilEnoughCostUnitsAreFree(t *testing.T) {
	by, err := ParseCostSelector("header:cost")
	if err != nil {
		t.Fatal(err)
	}
	g := evictingGate(t, 100, Config{Overload: OverloadConfig{CostBy: by, CostLimit: 30}})
	g.Overload.Evict.Rate = 0.5
	if g.Overload.Evict, err = ParseEviction("class>=6,after=2s,rate=0.5"); err != nil {
		t.Fatal(err)
	}
	g.ConcurrencyLimit = 4 // the bucket holds one token per four slots, so one token
	if err := g.Apply(&g.Config); err != nil {
		t.Fatal(err)
	}
	request := func(class, cost int) *stepped {
		s := &stepped{}
		s.Bind(g, func() int64 { return second }, func() { s.wakes++ }, nil)
		s.Protocol, s.Fields = "HTTP/1.1", fieldLines{"Priority", strconv.Itoa(class), "Cost", strconv.Itoa(cost)}
		s.Begin(second, &s.client, &s.container)
		s.step(second)
		return s
	}
	a, b, c := request(6, 10), request(6, 10), request(6, 10)
	waiting := request(0, 20)
	waiting.step(3 * second)
	c.step(3 * second)
	c.want(t, Rejected, gate.Evicted)
	if held, _ := g.Admission.Units(); held != 20 || waiting.State() != StateQueued {
		t.Fatalf("%d units are held, the waiting request is in state %s", held, waiting.State())
	}
	if next := waiting.step(3 * second); next != 5*second || b.isEvicted() {
		t.Fatalf("the next eviction is at %d, evicted %v; want a token after 2 s", next, b.isEvicted())
	}
	waiting.step(5 * second)
	b.step(5 * second)
	b.want(t, Rejected, gate.Evicted)
	if waiting.step(5 * second); waiting.State() != StateAwaiting || a.isEvicted() {
		t.Errorf("the waiting request is in state %s, the last one evicted %v", waiting.State(), a.isEvicted())
	}
	if held, _ := g.Admission.Units(); held != 30 {
		t.Errorf("%d units are held", held)
	}
}

// The victim's client disconnects before the eviction takes effect. The next request of
// the exchange must not be evicted.
func TestAPendingEvictionDoesNotEndTheNextRequestOfTheSameExchange(t *testing.T) {
	g := evictingGate(t, 1, Config{})
	victim := newStepped(g, 6, second)
	waiting := newStepped(g, 0, second)
	waiting.step(3 * second)
	victim.client.disconnected = true
	victim.step(3 * second)
	victim.want(t, Closed, gate.ClientGone)
	if waiting.step(3 * second); waiting.State() != StateAwaiting {
		t.Fatalf("the waiting request is in state %s", waiting.State())
	}
	victim.begin(6, 3*second)
	if victim.want(t, Ongoing, gate.Undecided); victim.isEvicted() {
		t.Error("the next request is evicted")
	}
}

func TestTurningEvictionOffDoesNotAffectQueuedRequests(t *testing.T) {
	g := evictingGate(t, 1, Config{})
	victim := newStepped(g, 6, second)
	waiting := newStepped(g, 0, second)
	off := g.Config
	off.Overload.Evict = Eviction{}
	if err := g.Apply(&off); err != nil {
		t.Fatal(err)
	}
	later := newStepped(g, 0, second)
	if next := later.step(second); next != 0 {
		t.Errorf("a request that arrived later may evict at %d", next)
	}
	waiting.step(3 * second)
	victim.step(3 * second)
	victim.want(t, Rejected, gate.Evicted)
}

func TestAnErrorEventIsSentOnlyBetweenTheEventsOfAnEventStream(t *testing.T) {
	for body, want := range map[string]bool{
		"": true, "data: a\n\n": true, "data: a\r\n\r\n": true, "data: a\r\r": true, "\n": true, ": comment\n\n": true, "data: a\n\n\n": true, "a\r\n\n": true, "a\n\r\n": true,
		"d": false, "data: a": false, "data: a\n": false, "data: a\r\n": false, "data: a\n\ndata: b\n": false, "data: a\n\nb": false, "a\r": false, "data: a\nb\n": false,
	} {
		for piece := 1; piece <= len(body)+1; piece++ {
			s := &eventStream{client: &steppedClient{}}
			for at := 0; at < len(body); at += piece {
				s.Write([]byte(body[at:min(at+piece, len(body))]))
			}
			if s.inEvent == want {
				t.Errorf("%q in pieces of %d: within an event %v", body, piece, s.inEvent)
			}
		}
	}
	for _, c := range []struct {
		name, head, body, protocol string
		full                       bool
		want                       bool
	}{
		{"a stream", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "data: a\n\n", "HTTP/1.1", false, true},
		{"parameters and case", "content-type: Text/Event-Stream; charset=utf-8\r\n", "", "HTTP/2.0", false, true},
		{"within an event", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "data: a\n", "HTTP/1.1", false, false},
		{"another type", "Content-Type: text/event-streams\r\nTransfer-Encoding: chunked\r\n", "data: a\n\n", "HTTP/1.1", false, false},
		{"a length", "Content-Type: text/event-stream\r\nContent-Length: 100\r\n", "data: a\n\n", "HTTP/1.1", false, false},
		{"an encoding", "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "data: a\n\n", "HTTP/1.1", false, false},
		{"HTTP/1.0", "Content-Type: text/event-stream\r\n", "data: a\n\n", "HTTP/1.0", false, false},
		{"a client that does not read", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", "data: a\n\n", "HTTP/1.1", true, false},
	} {
		g := evictingGate(t, 1, Config{})
		victim := newStepped(g, 6, second)
		victim.Protocol = c.protocol
		victim.container.head, victim.container.pending = "HTTP/1.1 200 OK\r\n"+c.head+"\r\n", c.body
		victim.step(second)
		newStepped(g, 0, second).step(3 * second)
		victim.client.full = c.full
		victim.step(3 * second)
		victim.want(t, CutOff, gate.Evicted)
		if rest, _ := strings.CutPrefix(string(victim.client.body), c.body); (rest == evictedEvent) != c.want || rest != "" && !c.want {
			t.Errorf("%s: %q follows the response", c.name, rest)
		}
	}
}

func TestConcurrentEvictionsLeaveNoSlotInUse(t *testing.T) {
	const slots = 4
	g := evictingGate(t, slots, Config{})
	g.Overload.Evict = Eviction{Class: 4, After: 0, Rate: 1000}
	g.QueueCapacity = 1000
	if err := g.Apply(&g.Config); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) + 1 }
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[gate.Outcome]int{}
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			woken := make(chan struct{}, 1)
			s := &stepped{}
			s.Bind(g, now, func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			}, nil)
			for range 300 {
				class := rng.IntN(admission.Classes)
				s.begin(class, now())
				end := now() + rng.Int64N(int64(time.Millisecond))
				for s.ending == Ongoing {
					if now() > end {
						s.container.head, s.container.ended = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true
					}
					select {
					case <-woken:
					case <-time.After(50 * time.Microsecond):
					}
					s.step(now())
				}
				if s.outcome == gate.Evicted && class < 4 {
					t.Errorf("a request of class %d is evicted", class)
				}
				mu.Lock()
				outcomes[s.outcome]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r := &g.evictions
	for c := range r.inFlight {
		if r.inFlight[c].First() != nil || r.overdue[c].First() != nil {
			t.Errorf("class %d is not empty at the end", c)
		}
	}
	if n := g.Admission.InFlight(); n != 0 || outcomes[gate.Evicted] == 0 {
		t.Errorf("%d slots are held at the end, outcomes %v", n, outcomes)
	}
}

// Requests of class 0 arrive while requests of class 7 hold all slots.
func TestEvictionsStayWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 16 // so a burst has slots/evictionShare = 4 evictions
		g := evictingGate(t, slots, Config{})
		born := time.Now()
		now := func() int64 { return int64(time.Since(born)) + 1 }
		var flying []*stepped
		for range slots {
			flying = append(flying, newStepped(g, 7, now()))
		}
		var waiting []*stepped
		for range 10 {
			waiting = append(waiting, newStepped(g, 0, now()))
		}
		evicted := func() (n int) {
			for _, s := range flying {
				if s.outcome == gate.Undecided {
					s.step(now())
				}
				if s.outcome == gate.Evicted {
					n++
				}
			}
			return n
		}
		for i := range 80 {
			time.Sleep(100 * time.Millisecond)
			elapsed := time.Since(born)
			for _, w := range waiting {
				w.step(now())
			}
			want := 0
			if elapsed >= 2*time.Second {
				want = 4 + int((elapsed-2*time.Second)/time.Second)
			}
			if got := evicted(); got != want {
				t.Fatalf("step %d: %d requests are evicted after %v, want %d", i, got, elapsed, want)
			}
		}
	})
}

// onlyField is the value of the field Priority.
type onlyField []byte

func (f onlyField) Each(yield func(name, value []byte) bool) { yield(priorityName, f) }

var priorityName = []byte("Priority")

func BenchmarkEvictableBeginEnd(b *testing.B) {
	for _, class := range []int{0, 7} {
		b.Run(fmt.Sprintf("class %d", class), func(b *testing.B) {
			g := evictingGate(b, 100, Config{})
			s := newStepped(g, class, second)
			s.End(gate.Served)
			s.Fields = onlyField(strconv.Itoa(class))
			b.ReportAllocs()
			for b.Loop() {
				s.Begin(second, &s.client, &s.container)
				s.enqueue()
				s.End(gate.Served)
			}
		})
	}
}
