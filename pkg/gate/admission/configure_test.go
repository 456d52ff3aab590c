package admission

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

// begin calls Acquire for n waiters with consecutive keys. The first key is the value of
// the parameter from. When a waiter is notified, its key is appended to got.
func begin(a *Controller, got *[]int, from, n int) (all []*Waiter) {
	for i := range n {
		w := &Waiter{Key: uint64(from + i)}
		w.Notify = func() { *got = append(*got, from+i) }
		a.Acquire(w)
		all = append(all, w)
	}
	return all
}

func TestRequestsInFlightFinishWhenAnUnlimitedGateGetsALimit(t *testing.T) {
	a := New(Config{Capacity: 1000})
	var got []int
	begin(a, &got, 0, 3)
	a.Configure(Config{Limit: 2, Capacity: 1})
	wantCounts(t, a, 3, 0)
	begin(a, &got, 3, 1)
	wantCounts(t, a, 3, 1)
	if w, _ := newTestWaiter(); a.Acquire(w) != Rejected {
		t.Fatal("a request beyond the new capacity was not rejected")
	}
	// After this, 2 requests are in flight. That is the limit, so the queued one is not
	// admitted.
	a.Release()
	wantCounts(t, a, 2, 1)
	a.Release()
	wantCounts(t, a, 2, 0)
	if !slices.Equal(got, []int{3}) {
		t.Fatalf("granted %v, want [3]", got)
	}
}

func TestAGateThatBecomesUnlimitedAdmitsAllQueuedRequests(t *testing.T) {
	a := New(Config{Limit: 1, Capacity: 10})
	var got []int
	begin(a, &got, 0, 4)
	a.Configure(Config{Capacity: 10})
	wantCounts(t, a, 4, 0)
	if !slices.Equal(got, []int{1, 2, 3}) || a.Limit() != 0 {
		t.Fatalf("granted %v at limit %d", got, a.Limit())
	}
	for range 4 {
		a.Release()
	}
	wantCounts(t, a, 0, 0)
	testkit.WantBug(t, a.Release)
}

func TestALowerCapacityKeepsQueuedRequests(t *testing.T) {
	for _, fair := range []bool{false, true} {
		a := New(Config{Limit: 1, Capacity: 10, Fair: fair})
		var got []int
		begin(a, &got, 0, 4)
		a.Configure(Config{Limit: 1, Capacity: 1, Fair: fair})
		wantCounts(t, a, 1, 3)
		w, _ := newTestWaiter()
		w.Key = 1
		wantDecision(t, a, w, Rejected)
		for range 4 {
			a.Release()
		}
		wantCounts(t, a, 0, 0)
		if !slices.Equal(got, []int{1, 2, 3}) {
			t.Fatalf("granted %v", got)
		}
	}
}

func TestRequestsQueuedBeforeAChangeOfTheQueueOrderAreServedFirst(t *testing.T) {
	for _, fair := range []bool{false, true} {
		a := New(Config{Limit: 1, Capacity: 10, Fair: fair})
		var got []int
		all := begin(a, &got, 0, 4)
		a.Configure(Config{Limit: 1, Capacity: 10, Fair: !fair})
		all = append(all, begin(a, &got, 4, 3)...)
		if !a.Withdraw(all[2]) || !a.Withdraw(all[5]) {
			t.Fatal("a queued request could not withdraw")
		}
		for range 5 {
			current := all[0]
			if len(got) > 0 {
				current = all[got[len(got)-1]]
			}
			a.Charge(current)
			a.Release()
		}
		wantCounts(t, a, 0, 0)
		if !slices.Equal(got, []int{1, 3, 4, 6}) {
			t.Fatalf("fair before: %v: granted %v", fair, got)
		}
		if n := len(a.fair.flows); n != 0 {
			t.Fatalf("fair before: %v: %d flows are left", fair, n)
		}
	}
}

func TestConfigureAcceptsOnlyValuesWithinTheBounds(t *testing.T) {
	a := New(Config{})
	testkit.WantBug(t, func() { a.Configure(Config{Limit: -1}) })
	testkit.WantBug(t, func() { a.Configure(Config{Capacity: MaxCapacity + 1}) })
	a.Configure(Config{Limit: MaxLimit, Capacity: MaxCapacity, Fair: true})
	if a.Limit() != MaxLimit || a.Capacity() != MaxCapacity {
		t.Fatalf("limit %d, capacity %d", a.Limit(), a.Capacity())
	}
	a.Configure(Config{Limit: MaxLimit, CapacityPerSlot: MaxCapacity / MaxLimit})
	if a.Capacity() != MaxCapacity {
		t.Fatalf("capacity %d", a.Capacity())
	}
}

// Changing limit, capacity and order while requests are queued, admitted and withdrawn
// loses no slot and no queue position, and every queued request gets a slot.
func TestChangesOfConfigurationLoseNoSlot(t *testing.T) {
	a := New(Config{Limit: 4, Capacity: 100})
	stop := make(chan struct{})
	var workers []func()
	for id := range 12 {
		granted := make(chan struct{}, 100)
		w := &Waiter{Key: uint64(id % 5), Class: uint8(id % 3), Notify: func() { granted <- struct{}{} }}
		random := rand.New(rand.NewPCG(7, uint64(id)))
		workers = append(workers, func() {
			for range 3000 {
				switch a.Acquire(w) {
				case Rejected:
					continue
				case Queued:
					if random.IntN(4) == 0 && a.Withdraw(w) {
						continue
					}
					for !w.Admitted() && !w.Shed() {
						<-granted
					}
					if w.Shed() {
						a.Withdraw(w)
						continue
					}
				}
				a.Charge(w)
				a.Release()
			}
		})
	}
	mover := make(chan struct{})
	go func() {
		defer close(mover)
		random := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
				a.Configure(Config{Limit: random.IntN(8), Capacity: random.IntN(12), Fair: random.IntN(2) == 0})
			}
		}
	}()
	together(workers...)
	close(stop)
	<-mover
	wantCounts(t, a, 0, 0)
	if a.fair != nil && len(a.fair.flows) != 0 {
		t.Fatalf("%d flows are left", len(a.fair.flows))
	}
}
