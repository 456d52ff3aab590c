package admission

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
)

// eachController runs a test on the implementation and on its reference.
func eachController(t *testing.T, test func(t *testing.T, newAdmission func(Config) admission)) {
	for _, implementation := range implementations {
		t.Run(implementation.name, func(t *testing.T) { test(t, implementation.make) })
	}
}

func newTestWaiter() (w *Waiter, notified *atomic.Int32) {
	notified = new(atomic.Int32)
	return &Waiter{Notify: func() { notified.Add(1) }}, notified
}

func wantCounts(t *testing.T, a admission, inFlight, waiting int) {
	t.Helper()
	if a.InFlight() != inFlight || a.QueueDepth() != waiting {
		t.Fatalf("%d in flight, %d queued, want %d and %d", a.InFlight(), a.QueueDepth(), inFlight, waiting)
	}
}

func wantDecision(t *testing.T, a admission, w *Waiter, want Decision) {
	t.Helper()
	if got := a.Acquire(w); got != want {
		t.Fatalf("Acquire returned %d, want %d", got, want)
	}
}

func TestRequestsGetSlotsThenQueueThenAreRejected(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Limit: 2, Capacity: 1})
		first, _ := newTestWaiter()
		second, _ := newTestWaiter()
		third, notified := newTestWaiter()
		fourth, _ := newTestWaiter()
		wantDecision(t, a, first, Admitted)
		wantDecision(t, a, second, Admitted)
		wantDecision(t, a, third, Queued)
		wantDecision(t, a, fourth, Rejected)
		wantCounts(t, a, 2, 1)
		if !first.Admitted() || third.Admitted() || fourth.Admitted() {
			t.Fatal("the state of a waiter contradicts the decision")
		}
		a.Release()
		wantCounts(t, a, 2, 0)
		if !third.Admitted() || notified.Load() != 1 {
			t.Fatalf("after hand-over: admitted %v, notified %d times", third.Admitted(), notified.Load())
		}
		a.Release()
		a.Release()
		wantCounts(t, a, 0, 0)
	})
}

func TestUnlimitedModeAdmitsAllAndCounts(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Capacity: 7})
		w, _ := newTestWaiter()
		for i := range 1000 {
			wantDecision(t, a, w, Admitted)
			wantCounts(t, a, i+1, 0)
		}
		for range 1000 {
			a.Release()
		}
		wantCounts(t, a, 0, 0)
		if a.Limit() != 0 || a.Capacity() != 7 {
			t.Fatalf("limit %d, capacity %d", a.Limit(), a.Capacity())
		}
	})
}

func TestWithdrawalFreesTheQueuePositionAndKeepsTheOrder(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		for withdrawn := range 3 {
			a := newAdmission(Config{Limit: 1, Capacity: 3})
			a.TryAcquire()
			var order []int
			var waiters [4]*Waiter
			for i := range waiters {
				waiters[i] = &Waiter{Notify: func() { order = append(order, i) }}
			}
			for _, w := range waiters[:3] {
				wantDecision(t, a, w, Queued)
			}
			wantDecision(t, a, waiters[3], Rejected)
			if !a.Withdraw(waiters[withdrawn]) {
				t.Fatal("Withdraw of a queued waiter returned false")
			}
			wantCounts(t, a, 1, 2)
			wantDecision(t, a, waiters[3], Queued)
			for range 4 {
				a.Release()
			}
			want := slices.DeleteFunc([]int{0, 1, 2, 3}, func(i int) bool { return i == withdrawn })
			if !slices.Equal(order, want) {
				t.Fatalf("waiter %d withdrew, the rest were admitted in the order %v", withdrawn, order)
			}
			wantCounts(t, a, 0, 0)
		}
	})
}

func TestWithdrawalAfterAdmissionLeavesTheSlotWithTheCaller(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Limit: 1, Capacity: 1})
		a.TryAcquire()
		w, _ := newTestWaiter()
		wantDecision(t, a, w, Queued)
		a.Release()
		if a.Withdraw(w) {
			t.Fatal("Withdraw of an admitted waiter returned true")
		}
		wantCounts(t, a, 1, 0)
		a.Release()
		wantCounts(t, a, 0, 0)
	})
}

func TestTryAcquireDoesNotOvertakeAQueuedRequest(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Limit: 1, Capacity: 1})
		a.TryAcquire()
		w := &Waiter{}
		w.Notify = func() {
			if a.TryAcquire() {
				t.Error("the slot was free while it was handed over")
			}
		}
		wantDecision(t, a, w, Queued)
		if a.TryAcquire() {
			t.Fatal("TryAcquire overtook a queued request")
		}
		a.Release()
		a.Release()
		if !a.TryAcquire() {
			t.Fatal("no slot although none is in use")
		}
	})
}

func TestNotifyMayCallTheController(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Limit: 1, Capacity: 100})
		a.TryAcquire()
		served := 0
		for range 100 {
			w := &Waiter{Notify: func() { served++; a.Release() }}
			wantDecision(t, a, w, Queued)
		}
		a.Release()
		wantCounts(t, a, 0, 0)
		if served != 100 {
			t.Fatalf("%d of 100 served", served)
		}
	})
}

func TestARejectionClearsTheAdmittedStateOfThePreviousRequest(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		a := newAdmission(Config{Limit: 1})
		w, _ := newTestWaiter()
		wantDecision(t, a, w, Admitted)
		a.Release()
		a.TryAcquire()
		wantDecision(t, a, w, Rejected)
		if w.Admitted() {
			t.Fatal("still admitted")
		}
		testkit.WantBug(t, func() { a.Withdraw(w) })
		wantCounts(t, a, 1, 0)
	})
}

func TestMisusePanicsWithoutChangingTheCounts(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		for limit := range 3 {
			a := newAdmission(Config{Limit: limit, Capacity: 1})
			testkit.WantBug(t, a.Release)
			wantCounts(t, a, 0, 0)
			a.TryAcquire()
			a.Release()
			testkit.WantBug(t, a.Release)
			wantCounts(t, a, 0, 0)
		}
		a := newAdmission(Config{Limit: 1, Capacity: 2})
		w, _ := newTestWaiter()
		testkit.WantBug(t, func() { a.Withdraw(w) })
		a.TryAcquire()
		testkit.WantBug(t, func() { a.Acquire(&Waiter{}) })
		wantDecision(t, a, w, Queued)
		testkit.WantBug(t, func() { a.Acquire(w) })
		wantCounts(t, a, 1, 1)
		a.Withdraw(w)
		testkit.WantBug(t, func() { a.Withdraw(w) })
		wantCounts(t, a, 1, 0)
	})
}

func TestLimitsOutsideTheRangePanic(t *testing.T) {
	for _, c := range []Config{{Limit: -1}, {Limit: MaxLimit + 1}, {Capacity: -1}, {Capacity: MaxCapacity + 1}} {
		testkit.WantBug(t, func() { New(c) })
	}
}

func TestTheHighestLimitsFitThePackedWord(t *testing.T) {
	a := New(Config{Limit: MaxLimit, Capacity: MaxCapacity})
	for a.TryAcquire() {
	}
	wantCounts(t, a, MaxLimit, 0)
	a.word.Add((MaxCapacity - 1) * oneWaiting) // as if MaxCapacity-1 requests were queued
	w, _ := newTestWaiter()
	wantDecision(t, a, w, Queued)
	wantDecision(t, a, &Waiter{}, Rejected)
	wantCounts(t, a, MaxLimit, MaxCapacity)
}

// A withdrawal and a grant, or two of each, start at the same time from
// different goroutines.
func TestAConcurrentWithdrawalAndGrantHaveExactlyOneWinner(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		granted := 0
		for range 5000 {
			a := newAdmission(Config{Limit: 1, Capacity: 2})
			a.TryAcquire()
			w, notified := newTestWaiter()
			next, nextNotified := newTestWaiter()
			wantDecision(t, a, w, Queued)
			wantDecision(t, a, next, Queued)
			var withdrawn bool
			together(a.Release, func() { withdrawn = a.Withdraw(w) })
			if withdrawn {
				if notified.Load() != 0 || nextNotified.Load() != 1 {
					t.Fatalf("withdrawn: notified %d times, the next %d times", notified.Load(), nextNotified.Load())
				}
				wantCounts(t, a, 1, 0)
			} else {
				granted++
				if notified.Load() != 1 || nextNotified.Load() != 0 {
					t.Fatalf("granted: notified %d times, the next %d times", notified.Load(), nextNotified.Load())
				}
				wantCounts(t, a, 1, 1)
				a.Release()
			}
			a.Release()
			wantCounts(t, a, 0, 0)
		}
		t.Logf("granted %d times of 5000", granted)
	})
}

func TestNoRequestIsQueuedWhileASlotIsFree(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		for range 5000 {
			a := newAdmission(Config{Limit: 2, Capacity: 2})
			a.TryAcquire()
			a.TryAcquire()
			w, _ := newTestWaiter()
			other, _ := newTestWaiter()
			together(a.Release, a.Release, func() { a.Acquire(w) }, func() { a.Acquire(other) })
			if !w.Admitted() || !other.Admitted() {
				t.Fatal("a queued request was not admitted")
			}
			wantCounts(t, a, 2, 0)
		}
	})
}

// together runs all functions at once and returns when all have returned.
func together(functions ...func()) {
	var ready, done sync.WaitGroup
	ready.Add(len(functions))
	for _, f := range functions {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			f()
		})
	}
	done.Wait()
}

// Each request draws a ticket, which is its number in the order of arrival. A mutex
// covers both the ticket and the Acquire, so that the two orders are the same. Each
// admitted request checks that no request with a lower ticket is still queued.
func TestRequestsAreAdmittedInTheOrderOfTheirTickets(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		for _, limit := range []int{1, 2, 5} {
			const goroutines, rounds = 12, 300
			a := newAdmission(Config{Limit: limit, Capacity: goroutines})
			var mu sync.Mutex
			var arrived []*Waiter // by ticket
			overtaken := func(ticket int) (lower int) {
				mu.Lock()
				earlier := arrived[max(0, ticket-2*goroutines):ticket]
				mu.Unlock()
				for i, w := range earlier {
					if a.waits(w) {
						return ticket - len(earlier) + i
					}
				}
				return -1
			}
			var done sync.WaitGroup
			for g := range goroutines {
				random := rand.New(rand.NewPCG(uint64(g), uint64(limit)))
				done.Go(func() {
					for range rounds {
						granted := make(chan struct{})
						w := &Waiter{Notify: func() { close(granted) }}
						mu.Lock()
						ticket := len(arrived)
						arrived = append(arrived, w)
						verdict := a.Acquire(w)
						mu.Unlock()
						switch {
						case verdict == Rejected:
							t.Errorf("ticket %d rejected although the queue has capacity", ticket)
							return
						case verdict == Queued && random.IntN(4) == 0:
							yield(random.IntN(4))
							if a.Withdraw(w) {
								continue
							}
						case verdict == Queued:
							<-granted
						}
						if lower := overtaken(ticket); lower >= 0 {
							t.Errorf("limit %d: ticket %d was admitted while %d was queued", limit, ticket, lower)
						}
						yield(random.IntN(3))
						a.Release()
					}
				})
			}
			done.Wait()
			wantCounts(t, a, 0, 0)
		}
	})
}

func yield(times int) {
	for range times {
		runtime.Gosched()
	}
}

// With one slot, requests exclude each other, so they can record the order of admission.
func TestASingleSlotIsGrantedInTheOrderOfArrival(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		const goroutines, rounds = 8, 500
		a := newAdmission(Config{Limit: 1, Capacity: goroutines})
		var mu sync.Mutex
		tickets := 0
		var admitted []int // guarded by the slot
		var done sync.WaitGroup
		for range goroutines {
			granted := make(chan struct{}, 1)
			w := &Waiter{Notify: func() { granted <- struct{}{} }}
			done.Go(func() {
				for range rounds {
					mu.Lock()
					ticket := tickets
					tickets++
					verdict := a.Acquire(w)
					mu.Unlock()
					if verdict == Queued {
						<-granted
					}
					admitted = append(admitted, ticket)
					a.Release()
				}
			})
		}
		done.Wait()
		if len(admitted) != goroutines*rounds || !slices.IsSorted(admitted) {
			t.Fatalf("%d of %d admitted, in order: %v", len(admitted), goroutines*rounds, slices.IsSorted(admitted))
		}
		wantCounts(t, a, 0, 0)
	})
}

// Each goroutine counts its slot in the variable holding, so the test does not rely on
// the counts of the implementation under test.
func TestConcurrentWithdrawalsNeverExceedTheLimitsAndLoseNoSlot(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		for seed := range uint64(12) {
			random := rand.New(rand.NewPCG(seed, 0))
			config := Config{Limit: random.IntN(6), Capacity: random.IntN(12)}
			a := newAdmission(config)
			var holding atomic.Int64
			var done sync.WaitGroup
			for g := range 16 {
				random := rand.New(rand.NewPCG(seed, uint64(g)))
				granted := make(chan struct{}, 1)
				w := &Waiter{Notify: func() { granted <- struct{}{} }}
				done.Go(func() {
					for range 300 {
						if random.IntN(8) == 0 {
							if !a.TryAcquire() {
								continue
							}
						} else {
							switch a.Acquire(w) {
							case Rejected:
								continue
							case Queued:
								if random.IntN(2) == 0 {
									yield(random.IntN(4))
									if a.Withdraw(w) {
										continue
									}
								}
								<-granted
							}
						}
						if n := holding.Add(1); config.Limit > 0 && n > int64(config.Limit) {
							t.Errorf("seed %d: %d in flight, limit %d", seed, n, config.Limit)
						}
						if n := a.QueueDepth(); n > config.Capacity {
							t.Errorf("seed %d: %d queued, capacity %d", seed, n, config.Capacity)
						}
						yield(random.IntN(3))
						holding.Add(-1)
						a.Release()
					}
				})
			}
			done.Wait()
			wantCounts(t, a, 0, 0)
			for range config.Limit {
				if !a.TryAcquire() {
					t.Fatalf("seed %d: a slot was lost", seed)
				}
			}
		}
	})
}

// loopConnection is a connection of an event loop that embeds its waiter and is
// notified through the loop's mailbox.
type loopConnection struct {
	waiter Waiter
	queued bool // owned by the loop
	rounds int
}

// Each loop serves several connections without blocking. A notification may arrive
// late: the loop may already have seen that the request was admitted, or the connection
// may have queued its next request. Late notifications must have no effect.
func TestWaitersMayBeReusedWhileNotifyIsStillRunning(t *testing.T) {
	eachController(t, func(t *testing.T, newAdmission func(Config) admission) {
		const loops, connections, rounds = 3, 8, 150
		a := newAdmission(Config{Limit: 2, Capacity: loops * connections / 2})
		var holding atomic.Int64
		hold := func() {
			if n := holding.Add(1); n > 2 {
				t.Errorf("%d in flight, limit 2", n)
			}
			runtime.Gosched()
			holding.Add(-1)
			a.Release()
		}
		loop := func(random *rand.Rand) {
			mailbox := make(chan *loopConnection, connections*rounds)
			owned := make([]loopConnection, connections)
			busy := connections
			for i := range owned {
				c := &owned[i]
				c.waiter.Notify = func() { mailbox <- c }
			}
			finish := func(c *loopConnection) {
				if c.rounds++; c.rounds == rounds {
					busy--
				}
			}
			for busy > 0 {
				waiting := 0
				for i := range owned {
					c := &owned[i]
					switch {
					case c.rounds == rounds:
					case c.queued && random.IntN(5) == 0:
						c.queued = false
						if !a.Withdraw(&c.waiter) {
							hold()
						}
						finish(c)
					case c.queued:
						waiting++
					default:
						switch a.Acquire(&c.waiter) {
						case Admitted:
							hold()
							finish(c)
						case Rejected:
							finish(c)
						case Queued:
							c.queued = true
							waiting++
						}
					}
				}
				if busy == 0 || waiting == 0 {
					continue
				}
				c := <-mailbox
				if c.queued && c.waiter.Admitted() {
					c.queued = false
					hold()
					finish(c)
				}
			}
		}
		var done sync.WaitGroup
		for l := range loops {
			done.Go(func() { loop(rand.New(rand.NewPCG(uint64(l), 0))) })
		}
		done.Wait()
		wantCounts(t, a, 0, 0)
	})
}

func TestAcquireReleaseAndWithdrawDoNotAllocate(t *testing.T) {
	w, _ := newTestWaiter()
	unlimitedMode := New(Config{})
	open := New(Config{Limit: 2, Capacity: 1})
	full := New(Config{Limit: 1, Capacity: 1})
	full.TryAcquire()
	closed := New(Config{Limit: 1})
	closed.TryAcquire()
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"unlimited", func() { unlimitedMode.Acquire(w); unlimitedMode.Release() }},
		{"slot", func() { open.Acquire(w); open.Release() }},
		{"hand-over", func() { full.Acquire(w); full.Release() }},
		{"withdrawal", func() { full.Acquire(w); full.Withdraw(w) }},
		{"refusal", func() { closed.Acquire(w) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(1000, c.run); n != 0 {
				t.Fatalf("%v allocations", n)
			}
		})
	}
}

func TestAQueueCapacityPerSlotFollowsTheLimit(t *testing.T) {
	for _, fair := range []bool{false, true} {
		a := New(Config{Limit: 2, Capacity: 1000, CapacityPerSlot: 3, Fair: fair})
		queued := func() (n int) {
			for {
				w := &Waiter{Notify: func() {}}
				switch a.Acquire(w) {
				case Queued:
					n++
				case Rejected:
					return n
				}
			}
		}
		if n := queued(); n != 6 || a.Capacity() != 6 {
			t.Errorf("fair %v: %d of %d are queued with a limit of 2, want 6", fair, n, a.Capacity())
		}
		a.SetLimit(3) // grants one waiting request its slot
		if n := queued(); n != 4 || a.QueueDepth() != 9 {
			t.Errorf("fair %v: %d more are queued with a limit of 3, want 4", fair, n)
		}
		a.SetLimit(1)
		if w := (&Waiter{Notify: func() {}}); a.Acquire(w) != Rejected || a.QueueDepth() != 9 {
			t.Errorf("fair %v: %d queued after the limit was lowered", fair, a.QueueDepth())
		}
	}
}
