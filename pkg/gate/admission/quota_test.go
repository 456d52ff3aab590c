package admission

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
)

// quotaModel is the sequential reference of a Controller with CostLimit and Brake: plain
// lists of requests in strict FIFO order.
type quotaModel struct {
	limit, capacity, costLimit int
	brake                      bool
	room                       int
	admissions                 uint64
	// Both slices are indexed by the number of the waiter. An element of costs is the
	// cost of the waiter's request. An element of held is the part of costLimit that the
	// request uses while it is in flight; 0 = it was admitted without a costLimit.
	costs, held    []int
	queue, holders []int
}

func (m *quotaModel) units() (n int) {
	for _, i := range m.holders {
		n += m.held[i]
	}
	return n
}

func (m *quotaModel) fits(i int) bool {
	switch {
	case len(m.holders) == 0:
		return true
	case m.limit > 0 && len(m.holders) >= m.limit, m.brake && m.room <= 0:
		return false
	}
	return m.costLimit == 0 || m.units() == 0 || m.units()+m.costs[i] <= m.costLimit
}

func (m *quotaModel) admit(i int) {
	m.room--
	m.admissions++
	m.held[i] = 0
	if m.costLimit > 0 {
		m.held[i] = m.costs[i]
	}
	m.holders = append(m.holders, i)
}

// grant admits queued requests in order, and stops before the first one that does not
// fit. It returns the admitted ones.
func (m *quotaModel) grant() (granted []int) {
	for len(m.queue) > 0 && m.fits(m.queue[0]) {
		m.admit(m.queue[0])
		granted = append(granted, m.queue[0])
		m.queue = slices.Delete(m.queue, 0, 1)
	}
	return granted
}

func TestAdmissionByCostAndRoomMatchesTheReferenceStepByStep(t *testing.T) {
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprintf("fair %v", fair), func(t *testing.T) {
			for seed := range uint64(800) {
				random := rand.New(rand.NewPCG(seed, 1))
				c := Config{
					Limit: random.IntN(4), Capacity: random.IntN(6), Fair: fair,
					CostLimit: random.IntN(3) * 10, Brake: random.IntN(2) == 0,
				}
				if c.CostLimit == 0 {
					c.Brake = true
				}
				if err := compareWithQuotaModel(c, random); err != nil {
					t.Fatalf("seed %d, %+v: %v", seed, c, err)
				}
			}
		})
	}
}

// compareWithQuotaModel runs random operations on a Controller and the model.
func compareWithQuotaModel(c Config, random *rand.Rand) error {
	const requests = 7
	a := New(c)
	m := quotaModel{
		limit: c.Limit, capacity: c.Capacity, costLimit: c.CostLimit, brake: c.Brake,
		costs: make([]int, requests), held: make([]int, requests),
	}
	var notified []int
	waiters := make([]*Waiter, requests)
	for i := range waiters {
		waiters[i] = &Waiter{Notify: func() { notified = append(notified, i) }}
	}
	var trace []string
	for range 150 {
		notified = nil
		var granted []int
		var got, want any
		i := random.IntN(requests)
		queued, holds := slices.Contains(m.queue, i), slices.Contains(m.holders, i)
		operation := random.IntN(8)
		trace = append(trace, fmt.Sprintf("%d of %d", operation, i))
		switch {
		case operation < 4 && !queued && !holds:
			m.costs[i] = 1 + random.IntN(14)
			waiters[i].SetCost(int64(m.costs[i]))
			got = a.Acquire(waiters[i])
			switch {
			case len(m.queue) == 0 && m.fits(i):
				want = Admitted
				m.admit(i)
			case len(m.queue) < m.capacity:
				want = Queued
				m.queue = append(m.queue, i)
			default:
				want = Rejected
			}
		case operation < 4 && holds:
			a.Charge(waiters[i])
			a.Release()
			m.holders = slices.DeleteFunc(m.holders, func(j int) bool { return j == i })
			granted = m.grant()
		case operation == 4 && queued:
			got, want = a.Withdraw(waiters[i]), true
			m.queue = slices.DeleteFunc(m.queue, func(j int) bool { return j == i })
			granted = m.grant()
		case operation == 5:
			n, late := random.IntN(5)-1, random.Uint64N(3)
			late = min(late, m.admissions)
			a.SetRoom(int64(n), m.admissions-late)
			m.room = n - int(late)
			granted = m.grant()
		case operation == 6:
			c.CostLimit, c.Limit, c.Capacity = 5+random.IntN(20), random.IntN(4), random.IntN(6)
			a.Configure(c)
			m.costLimit, m.limit, m.capacity = c.CostLimit, c.Limit, c.Capacity
			granted = m.grant()
		}
		units, _ := a.Units()
		switch {
		case got != want:
			return fmt.Errorf("got %v, want %v; after %q", got, want, trace)
		case !slices.Equal(notified, granted):
			return fmt.Errorf("notified %v, want %v; after %q", notified, granted, trace)
		case units != m.units():
			return fmt.Errorf("%d units are held, want %d; after %q", units, m.units(), trace)
		case a.InFlight() != len(m.holders) || a.QueueDepth() != len(m.queue):
			return fmt.Errorf("%d in flight, %d queued, want %d and %d; after %q", a.InFlight(), a.QueueDepth(), len(m.holders), len(m.queue), trace)
		}
	}
	return nil
}

// holdUnits admits a request with the given cost and returns a function that releases its
// slot.
func holdUnits(t *testing.T, a *Controller, cost int64) (release func()) {
	t.Helper()
	ticket := &Ticket{Waiter: Waiter{Notify: func() {}}}
	ticket.Waiter.SetCost(cost)
	if d := ticket.Acquire(a); d != Admitted {
		t.Fatalf("a request of %d units: %v, want it admitted", cost, d)
	}
	return func() { ticket.Release(a) }
}

// queueUnits queues a request with the given cost.
func queueUnits(t *testing.T, a *Controller, cost int64) *Ticket {
	t.Helper()
	ticket := &Ticket{Waiter: Waiter{Notify: func() {}}}
	ticket.Waiter.SetCost(cost)
	if d := ticket.Acquire(a); d != Queued {
		t.Fatalf("a request of %d units: %v, want it queued", cost, d)
	}
	return ticket
}

func TestALargeRequestIsNotOvertakenBySmallOnes(t *testing.T) {
	a := New(Config{Capacity: 10, CostLimit: 100})
	first, second := holdUnits(t, a, 60), holdUnits(t, a, 30)
	large := queueUnits(t, a, 80)
	small := queueUnits(t, a, 1) // needs fewer units than are free
	second()
	if large.Granted() || small.Granted() {
		t.Fatal("80 units were granted beside 60, or 1 unit before the 80 that wait")
	}
	first()
	if !large.Granted() || !small.Granted() {
		t.Fatal("80 units and 1 unit are not granted, although all are free")
	}
}

func TestARequestLargerThanTheCostLimitRunsAlone(t *testing.T) {
	a := New(Config{Capacity: 10, CostLimit: 100})
	end := holdUnits(t, a, 1)
	huge, next := queueUnits(t, a, 1000), queueUnits(t, a, 1)
	end()
	if !huge.Granted() || next.Granted() {
		t.Fatalf("huge granted %v, next %v; want only the huge request", huge.Granted(), next.Granted())
	}
	huge.Release(a)
	if !next.Granted() {
		t.Fatal("the request behind the huge one was not admitted")
	}
}

func TestWithdrawingALargeRequestAdmitsSmallRequestsQueuedBehindIt(t *testing.T) {
	a := New(Config{Capacity: 10, CostLimit: 100})
	holdUnits(t, a, 60)
	large, small := queueUnits(t, a, 80), queueUnits(t, a, 40)
	large.Release(a)
	if !small.Granted() {
		t.Fatal("40 units were not granted beside 60 of 100")
	}
	if held, limit := a.Units(); held != 100 || limit != 100 {
		t.Errorf("%d of %d units are held, want 100 of 100", held, limit)
	}
}

func TestUnitsAreReturnedIfTheCostLimitIsTurnedOffMeanwhile(t *testing.T) {
	a := New(Config{Capacity: 10, Limit: 2, CostLimit: 100})
	end := holdUnits(t, a, 90)
	waits := queueUnits(t, a, 50)
	a.Configure(Config{Capacity: 10, Limit: 2})
	if !waits.Granted() {
		t.Fatal("a slot is free and no cost limit is set, but the request waits")
	}
	end()
	waits.Release(a)
	a.Configure(Config{Capacity: 10, Limit: 2, CostLimit: 100})
	if held, _ := a.Units(); held != 0 || a.InFlight() != 0 {
		t.Errorf("%d units and %d slots are held by no request", held, a.InFlight())
	}
}

func TestARequestAdmittedBeforeACostLimitIsSetHoldsNoUnits(t *testing.T) {
	a := New(Config{Limit: 2})
	ticket := &Ticket{Waiter: Waiter{Notify: func() {}}}
	if !ticket.TryAcquire(a) {
		t.Fatal("no slot")
	}
	a.Configure(Config{Limit: 2, CostLimit: 10, Capacity: 1})
	end := holdUnits(t, a, 10)
	ticket.Release(a)
	if held, _ := a.Units(); held != 10 {
		t.Errorf("%d units are held, want 10", held)
	}
	end()
}

func TestARequestWithACostAdmittedBeforeACostLimitIsSetHoldsNoUnits(t *testing.T) {
	a := New(Config{Limit: 2, Capacity: 1})
	x := &Ticket{Waiter: Waiter{Notify: func() {}}}
	x.Waiter.SetCost(7)
	if x.Acquire(a) != Admitted {
		t.Fatal("no slot")
	}
	a.Configure(Config{Limit: 2, Capacity: 1, CostLimit: 10})
	x.Release(a)
	if held, _ := a.Units(); held != 0 {
		t.Errorf("%d units are held by no request", held)
	}
}

func TestAFairQueueGivesEachKeyAnEqualShareOfCostUnits(t *testing.T) {
	a := New(Config{Capacity: 1000, CostLimit: 10, Fair: true})
	end := holdUnits(t, a, 10)
	served := map[uint64]int{}
	tickets := make([]*Ticket, 0, 600)
	for key, cost := range []int64{10, 1} { // key 0 sends requests of 10 units, key 1 of 1
		for range 300 {
			w := &Ticket{Waiter: Waiter{Notify: func() {}, Key: uint64(key), Class: DefaultClass}}
			w.Waiter.SetCost(cost)
			if w.Acquire(a) != Queued {
				t.Fatal("not queued")
			}
			tickets = append(tickets, w)
		}
	}
	end()
	for served[0]+served[1] < 600 {
		i := slices.IndexFunc(tickets, (*Ticket).Granted)
		w := tickets[i]
		tickets = slices.Delete(tickets, i, i+1)
		served[w.Waiter.Key] += int(w.Waiter.cost())
		w.Release(a)
		if served[1] == 200 {
			break
		}
	}
	if served[0] < 150 || served[0] > 250 {
		t.Errorf("one key was served %d units while the other was served 200, want about as many", served[0])
	}
}

func TestWhenTheUpstreamHasNoRoomRequestsAreAdmittedOneAtATime(t *testing.T) {
	a := New(Config{Capacity: 10, Brake: true})
	end := holdUnits(t, a, 1)
	next := queueUnits(t, a, 1)
	a.SetRoom(NoRoom, a.Admissions())
	if next.Granted() {
		t.Fatal("admitted without room while another request is in flight")
	}
	end()
	if !next.Granted() {
		t.Fatal("not admitted although nothing is in flight")
	}
	select {
	case <-a.Busy():
	default:
		t.Error("the first request was not announced")
	}
}

func TestRequestsAdmittedSinceTheLastMeasurementReduceTheRoomOfTheUpstream(t *testing.T) {
	a := New(Config{Capacity: 10, Brake: true})
	a.SetRoom(3, 0)
	measured := a.Admissions()
	holdUnits(t, a, 1)
	holdUnits(t, a, 1)
	a.SetRoom(3, measured) // this room was measured before these two requests were admitted
	holdUnits(t, a, 1)
	queueUnits(t, a, 1)
}

func TestTheEndOfARequestMakesNoRoomInTheUpstream(t *testing.T) {
	a := New(Config{Capacity: 10, Brake: true})
	a.SetRoom(4, 0)
	var ends []func()
	for range 4 {
		ends = append(ends, holdUnits(t, a, 1))
	}
	next := queueUnits(t, a, 1)
	for _, end := range ends[:3] {
		end()
	}
	if next.Granted() {
		t.Error("the end of a request made room in the upstream")
	}
	a.SetRoom(1, a.Admissions())
	if !next.Granted() {
		t.Error("not admitted although there is room")
	}
}

func TestConcurrentRequestsNeverHoldMoreThanTheCostLimit(t *testing.T) {
	const limit = 20
	for _, c := range []Config{{Capacity: 100, CostLimit: limit}, {Limit: 6, Capacity: 3, CostLimit: limit, Fair: true}} {
		a := New(c)
		var held, over atomic.Int64
		var all sync.WaitGroup
		for id := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(id), 7))
				woken := make(chan struct{}, 1)
				ticket := &Ticket{Waiter: Waiter{Key: uint64(id), Notify: func() {
					select {
					case woken <- struct{}{}:
					default:
					}
				}}}
				for range 2000 {
					cost := 1 + random.Int64N(limit)
					ticket.Waiter.SetCost(cost)
					switch ticket.Acquire(a) {
					case Rejected:
						continue
					case Queued:
						leaves := random.IntN(4) == 0
						for !leaves && !ticket.Granted() && !ticket.Waiter.Shed() {
							select {
							case <-woken:
							case <-time.After(10 * time.Second):
								t.Error("a queued request was forgotten")
								leaves = true
							}
						}
						if !ticket.Slot {
							ticket.Release(a)
							continue
						}
					}
					if held.Add(cost) > limit {
						over.Inc()
					}
					held.Sub(cost)
					ticket.Release(a)
				}
			})
		}
		all.Wait()
		if units, _ := a.Units(); over.Load() > 0 || units != 0 || a.InFlight() != 0 || a.QueueDepth() != 0 {
			t.Errorf("%+v: beyond the limit %d times; left: %d units, %d in flight, %d queued", c, over.Load(), units, a.InFlight(), a.QueueDepth())
		}
	}
}

func TestAdmissionByCostAllocatesNothing(t *testing.T) {
	a := New(Config{Limit: 1, Capacity: 10, CostLimit: 100, Brake: true})
	first, second := &Ticket{Waiter: Waiter{Notify: func() {}}}, &Ticket{Waiter: Waiter{Notify: func() {}}}
	if n := testing.AllocsPerRun(1000, func() {
		first.Waiter.SetCost(60)
		second.Waiter.SetCost(60)
		first.Acquire(a)
		second.Acquire(a)
		first.Release(a)
		if !second.Granted() {
			t.Fatal("not granted")
		}
		second.Release(a)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheBusyChannelSignalsOnlyAfterTheRequestIsCountedInFlight(t *testing.T) {
	a := New(Config{Capacity: 10, Brake: true})
	for range 100_000 {
		seen := make(chan int)
		go func() {
			for len(a.Busy()) == 0 {
				runtime.Gosched()
			}
			n := a.InFlight()
			<-a.Busy()
			seen <- n
		}()
		w := &Waiter{Notify: func() {}}
		a.Acquire(w)
		if n := <-seen; n != 1 {
			t.Fatalf("%d in flight, want 1", n)
		}
		a.Release()
	}
}
