package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// closedLoop simulates clients with one request each in flight, and a container with a
// fixed service time, in steps of 1 ms.
type closedLoop struct {
	admission *Controller
	now       int64
	clients   []*loopClient
	random    *rand.Rand
	service   int // ms
}

type loopClient struct {
	Waiter
	key     func() uint64
	until   int // ms: when it sends its next request or releases its slot
	holding bool
	queued  bool
	served  int
}

func (l *closedLoop) add(n int, key func() uint64) (added []*loopClient) {
	for range n {
		c := &loopClient{key: key}
		c.Class = DefaultClass
		c.Notify = func() {
			c.queued = false
			if c.Shed() {
				l.admission.Withdraw(&c.Waiter)
				return
			}
			c.holding = true
			c.until = int(l.now/1e6) + l.service
		}
		l.clients = append(l.clients, c)
		added = append(added, c)
	}
	return added
}

// run simulates ms milliseconds. A client whose request is rejected sends another
// one in the next millisecond.
func (l *closedLoop) run(ms int) {
	for ms0 := range ms {
		l.now = int64(ms0) * 1e6
		for _, c := range l.clients {
			if c.holding && c.until <= ms0 {
				c.holding = false
				c.served++
				l.admission.Charge(&c.Waiter)
				l.admission.Release()
			}
		}
		for _, i := range l.random.Perm(len(l.clients)) {
			c := l.clients[i]
			if c.holding || c.queued {
				continue
			}
			c.Key = c.key()
			switch l.admission.Acquire(&c.Waiter) {
			case Admitted:
				c.holding, c.until = true, ms0+l.service
			case Queued:
				c.queued = true
			}
		}
	}
}

// The clients of one key ("tenant") compete with attackers, while the queue has free
// capacity or is full. The tenant gets at least a third of the slots that it would get in
// FIFO order. With more than 8 attackers, half of an equal share among the maximum number
// of flows suffices.
func TestAClientWithANewKeyPerRequestCannotStarveAnotherKey(t *testing.T) {
	const limit, seconds, service = 4, 30, 50
	for _, c := range []struct{ capacity, attackers, tenant int }{
		{40, 8, 1}, {40, 8, 2}, {40, 8, 4}, {40, 8, 8},
		{4, 8, 1}, {4, 8, 2}, {4, 8, 4}, {4, 8, 8},
		{40, 100, 1}, {40, 100, 8},
		{1000, 800, 8},
	} {
		t.Run(fmt.Sprintf("capacity %d, %d attackers, tenant of %d", c.capacity, c.attackers, c.tenant), func(t *testing.T) {
			served := map[bool]int{}
			for _, fair := range []bool{false, true} {
				l := &closedLoop{random: rand.New(rand.NewPCG(1, 2)), service: service}
				l.admission = New(Config{Limit: limit, Capacity: c.capacity, Fair: fair, Clock: func() int64 { return l.now }})
				l.add(c.attackers, l.random.Uint64)
				tenant := l.add(c.tenant, func() uint64 { return 1 })
				l.run(seconds * 1000)
				for _, c := range tenant {
					served[fair] += c.served
				}
			}
			grants := limit * seconds * 1000 / service
			equal := float64(grants) / float64(min(c.capacity, exclusiveFlows+sharedFlows)+1)
			want := 0.33 * float64(served[false])
			if c.attackers > 8 {
				want = min(want, 0.5*equal)
			}
			if got := float64(served[true]); got < want {
				t.Errorf("the tenant got %.0f of %d slots, want %.0f (FIFO order: %d, an equal share: %.0f)", got, grants, want, served[false], equal)
			}
		})
	}
}

// With random requests of old and new keys of equal cost, each competing flow overtakes the
// oldest request of a key at most twice, however many new keys arrive.
func TestOtherFlowsOvertakeARequestAtMostABoundedNumberOfTimes(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 4))
		now := int64(0)
		a := New(Config{Limit: 1 + random.IntN(4), Capacity: 5 + random.IntN(200), Fair: true, Clock: func() int64 { return now }})
		type head struct{ passed, flows int }
		model := map[uint64][]*Waiter{}
		heads := map[uint64]*head{}
		var holding []*Waiter
		begin := func(key uint64) {
			w := &Waiter{Class: DefaultClass, Key: key}
			w.Notify = func() {
				list := model[key]
				if w.Shed() {
					a.Withdraw(w)
					model[key] = list[:len(list)-1]
				} else {
					holding = append(holding, w)
					model[key] = list[1:]
					delete(heads, key)
					for other, h := range heads {
						h.flows = max(h.flows, len(heads)+1)
						if h.passed++; h.passed > 2*(h.flows+1) {
							t.Fatalf("seed %d: key %d was overtaken %d times with %d flows", seed, other, h.passed, h.flows)
						}
					}
				}
				if len(model[key]) == 0 {
					delete(model, key)
					delete(heads, key)
				} else if heads[key] == nil {
					heads[key] = &head{}
				}
			}
			switch a.Acquire(w) {
			case Admitted:
				holding = append(holding, w)
			case Queued:
				if len(a.fair.classes[DefaultClass].byService.flows) >= exclusiveFlows {
					t.Fatalf("seed %d: more flows than the test counts", seed)
				}
				model[key] = append(model[key], w)
				if heads[key] == nil {
					heads[key] = &head{}
				}
			}
		}
		for range 3000 {
			switch key := random.Uint64(); {
			case len(model) > exclusiveFlows/2 || random.IntN(3) == 0:
				if len(holding) > 0 {
					w := holding[0]
					holding = holding[1:]
					now += firstCost
					a.charge(w, firstCost)
					a.Release()
				}
			case random.IntN(2) == 0:
				begin(key) // always new
			default:
				begin(key % 4)
			}
		}
	}
}

// charge charges w for a slot that was held for took.
func (a *Controller) charge(w *Waiter, took int64) {
	if w.flow != nil {
		w.grantedAt = a.fair.clock() - took
	}
	a.Charge(w)
}

func TestTheNumberOfWaitingFlowsIsBounded(t *testing.T) {
	f := newFairTest(1, 5000)
	random := rand.New(rand.NewPCG(3, 3))
	f.begin("first", DefaultClass, 9)
	for i := range 5000 {
		f.begin(fmt.Sprint(i), DefaultClass, random.Uint64())
		if n := len(f.fair.flows); n > exclusiveFlows+sharedFlows {
			t.Fatalf("%d flows of %d requests", n, i+1)
		}
	}
	if n := len(f.drain(firstCost)); n != 5000 || len(f.fair.flows) != 0 {
		t.Fatalf("%d granted, %d flows left", n, len(f.fair.flows))
	}
}

// A tunnel holds its slot for an hour. Its key is served again after a bounded
// number of slots for other keys.
func TestAKeyIsServedSoonAfterAnHourLongTunnel(t *testing.T) {
	f := newFairTest(1, 1000)
	f.begin("first", DefaultClass, 9)
	f.begin("tunnel", DefaultClass, 1)
	f.begin("next", DefaultClass, 1)
	for i := range 900 {
		f.begin(fmt.Sprint(i), DefaultClass, 2)
	}
	f.end(firstCost)
	f.end(int64(time.Hour))
	f.granted = nil
	for range 2 * maxDebt * maxOutlier {
		f.end(firstCost)
		if f.granted[len(f.granted)-1] == "next" {
			return
		}
	}
	t.Fatalf("the key of the tunnel got none of %d slots", len(f.granted))
}
