package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The requests are random, with old and new keys and equal costs. The oldest request of
// a key may be overtaken at most 2*(n+1) times, where n is the highest number of flows
// that were queued at the same time while it waited. The bound does not depend on how
// many new keys arrive.
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
				begin(key) // a new key
			default:
				begin(key % 4)
			}
		}
	}
}

// charge calls Charge as if w had held its slot for took nanoseconds.
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
