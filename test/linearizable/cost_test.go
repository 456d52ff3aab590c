package linearizable

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// costState is the state of the admission model with a cost limit.
type costState struct {
	limit, capacity, costLimit int // limit 0 = unlimited
	inFlight, units            int
	costs                      [8]int8 // cost of each request
	queue                      [8]int8 // id + 1 of each queued request; 0 = unused
	waiting                    int
	holders                    uint8
}

func (s costState) fits(id int) bool {
	return s.inFlight == 0 || (s.limit == 0 || s.inFlight < s.limit) && (s.units == 0 || s.units+int(s.costs[id]) <= s.costLimit)
}

func (s costState) admit(id int) costState {
	s.inFlight++
	s.units += int(s.costs[id])
	s.holders |= 1 << id
	return s
}

// grant admits the queued requests before the first one that does not fit.
func (s costState) grant() costState {
	for s.waiting > 0 && s.fits(int(s.queue[0]-1)) {
		id := int(s.queue[0] - 1)
		s = s.remove(0).admit(id)
	}
	return s
}

func (s costState) remove(i int) costState {
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[len(s.queue)-1] = 0
	s.waiting--
	return s
}

func costModel(c admission.Config) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return costState{limit: c.Limit, capacity: c.Capacity, costLimit: c.CostLimit} },
		Step: func(state, input, output any) (bool, any) {
			s, in := state.(costState), input.(call)
			bit := uint8(1) << in.id
			switch in.operation {
			case "begin":
				s.costs[in.id] = int8(in.n)
				want := admission.Rejected
				switch {
				case s.waiting == 0 && s.fits(in.id):
					want = admission.Admitted
					s = s.admit(in.id)
				case s.waiting < s.capacity:
					want = admission.Queued
					s.queue[s.waiting] = int8(in.id + 1)
					s.waiting++
					// A "return" before this operation may have freed units without
					// granting them. So the first queued requests may fit now.
					s = s.grant()
				}
				return output.(admission.Decision) == want, s
			case "return": // only the next operation grants the returned units
				s.units -= int(s.costs[in.id])
				return true, s
			case "end":
				s.holders &^= bit
				s.inFlight--
				return true, s.grant()
			case "withdraw":
				i := slices.Index(s.queue[:s.waiting], int8(in.id+1))
				if i < 0 {
					return !output.(bool) && s.holders&bit != 0, s
				}
				return output.(bool), s.remove(i).grant()
			case "admitted":
				return !output.(bool) || s.holders&bit != 0, s
			}
			s.costLimit = in.n
			return true, s.grant()
		},
	}
}

// Requests with different costs run concurrently, while the limit changes.
func TestAdmissionByCostIsLinearizable(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		c := admission.Config{Limit: rand.IntN(4), Capacity: rand.IntN(4), CostLimit: 4 + rand.IntN(6)}
		a := admission.New(c)
		var h history
		var all sync.WaitGroup
		start := make(chan struct{})
		for id := range 5 {
			all.Go(func() {
				<-start
				w := admission.Waiter{Notify: func() {}}
				for range 4 {
					cost := 1 + rand.IntN(6)
					switch h.do(id, call{"begin", id, cost}, func() any {
						w.SetCost(int64(cost))
						return a.Acquire(&w)
					}).(admission.Decision) {
					case admission.Rejected:
						continue
					case admission.Queued:
						for i := 0; i < 3 && !h.do(id, call{"admitted", id, 0}, func() any { return w.Admitted() }).(bool); i++ {
							time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond)
						}
						if h.do(id, call{"withdraw", id, 0}, func() any { return a.Withdraw(&w) }).(bool) {
							continue
						}
					}
					h.do(id, call{"return", id, 0}, func() any { a.Charge(&w); return nil })
					h.do(id, call{"end", id, 0}, func() any { a.Release(); return nil })
				}
			})
		}
		if round%2 == 0 {
			all.Go(func() {
				<-start
				for range 2 {
					next := c
					next.CostLimit = 4 + rand.IntN(6)
					h.do(5, call{"configure", 0, next.CostLimit}, func() any { a.Configure(next); return nil })
				}
			})
		}
		close(start)
		all.Wait()
		h.check(t, costModel(c))
		if units, _ := a.Units(); units != 0 || a.InFlight() != 0 || a.QueueDepth() != 0 {
			t.Fatalf("%d units, %d in flight and %d queued are left", units, a.InFlight(), a.QueueDepth())
		}
	}
}
