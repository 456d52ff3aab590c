//go:build !race

package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
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
	key func() uint64
	// until is the time in ms at which the client releases its slot. It applies only
	// while the client holds one.
	until   int
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

// The clients of one key, the tenant, compete with attackers that send a new key with
// each request. The tenant must get at least a third of the slots that it would get in
// FIFO order. If there are more than 8 attackers, half of an equal share is enough. An
// equal share is the number of all slots granted, divided by the number of flows that
// can compete.
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
