package admission

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// fairTest records the names of granted waiters in order. It has a fake clock.
type fairTest struct {
	*Controller
	now     int64
	granted []string
	shed    []string
	holding []*Waiter
}

func newFairTest(limit, capacity int) *fairTest {
	f := &fairTest{}
	f.Controller = New(Config{Limit: limit, Capacity: capacity, Fair: true, Clock: func() int64 { return f.now }})
	return f
}

func (f *fairTest) begin(name string, class uint8, key uint64) Decision {
	w := &Waiter{Class: class, Key: key}
	w.Notify = func() {
		if w.Shed() {
			f.shed = append(f.shed, name)
			f.Withdraw(w)
			return
		}
		f.granted = append(f.granted, name)
		f.holding = append(f.holding, w)
	}
	v := f.Acquire(w)
	if v == Admitted {
		f.holding = append(f.holding, w)
	}
	return v
}

// end releases the slot held longest, after it was held for the given time.
func (f *fairTest) end(took int64) {
	w := f.holding[0]
	f.holding = f.holding[1:]
	f.now += took
	f.Charge(w)
	f.Release()
}

func (f *fairTest) drain(took int64) []string {
	f.granted = nil
	for len(f.holding) > 0 {
		f.end(took)
	}
	return f.granted
}

func TestKeysShareSlotsInFIFOOrderPerKey(t *testing.T) {
	f := newFairTest(1, 20)
	f.begin("first", DefaultClass, 9)
	for i := range 4 {
		f.begin(fmt.Sprint("a", i), DefaultClass, 1)
	}
	f.begin("b0", DefaultClass, 2)
	f.begin("b1", DefaultClass, 2)
	f.begin("c0", DefaultClass, 3)
	if got, want := f.drain(firstCost), []string{"a0", "b0", "c0", "a1", "b1", "a2", "a3"}; !slices.Equal(got, want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
	if len(f.fair.flows) != 0 {
		t.Fatalf("%d flows are left although no request is queued", len(f.fair.flows))
	}
}

func TestKeysGetEqualServiceTimeRegardlessOfRequestDuration(t *testing.T) {
	f := newFairTest(1, 1000)
	f.begin("first", DefaultClass, 9)
	names := map[uint64]string{1: "long", 2: "short"}
	for range 400 {
		f.begin(names[1], DefaultClass, 1)
		f.begin(names[2], DefaultClass, 2)
	}
	spent := map[string]int64{}
	for len(f.granted) < 300 {
		took := int64(1)
		if len(f.granted) > 0 && f.granted[len(f.granted)-1] == "long" {
			took = 10
		}
		if n := len(f.granted); n > 0 {
			spent[f.granted[n-1]] += took * firstCost
		}
		f.end(took * firstCost)
	}
	if ratio := float64(spent["long"]) / float64(spent["short"]); ratio < 0.8 || ratio > 1.25 {
		t.Fatalf("time spent: %v, a ratio of %.2f, want about 1", spent, ratio)
	}
}

func TestAFullQueueShedsTheNewestRequestOfTheLongestKey(t *testing.T) {
	f := newFairTest(1, 4)
	f.begin("first", DefaultClass, 9)
	for i := range 4 {
		f.begin(fmt.Sprint("flood", i), DefaultClass, 1)
	}
	if v := f.begin("flood4", DefaultClass, 1); v != Rejected {
		t.Fatalf("another request of the longest key: decision %d, want rejected", v)
	}
	if v := f.begin("quiet", DefaultClass, 2); v != Queued {
		t.Fatalf("a request of another key: decision %d, want queued", v)
	}
	if want := []string{"flood3"}; !slices.Equal(f.shed, want) {
		t.Fatalf("shed %v, want %v", f.shed, want)
	}
	wantCounts(t, f.Controller, 1, 4)
	if got, want := f.drain(firstCost), []string{"flood0", "quiet", "flood1", "flood2"}; !slices.Equal(got, want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
	wantCounts(t, f.Controller, 0, 0)
}

func TestAHigherClassIsServedFirstAndShedLast(t *testing.T) {
	f := newFairTest(1, 3)
	f.begin("first", DefaultClass, 0)
	f.begin("low0", 7, 1)
	f.begin("low1", 7, 1)
	f.begin("middle", 3, 1)
	if v := f.begin("high", 0, 1); v != Queued {
		t.Fatalf("decision %d, want queued", v)
	}
	if v := f.begin("low2", 7, 2); v != Rejected {
		t.Fatalf("a request that would not improve fairness: decision %d, want rejected", v)
	}
	if want := []string{"low1"}; !slices.Equal(f.shed, want) {
		t.Fatalf("shed %v, want %v", f.shed, want)
	}
	if v := f.begin("middle1", 3, 1); v != Queued || f.shed[1] != "low0" {
		t.Fatalf("decision %d, shed %v: want the last of the lowest class shed", v, f.shed)
	}
	if got, want := f.drain(firstCost), []string{"high", "middle", "middle1"}; !slices.Equal(got, want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
}

func TestALowerClassIsOvertakenAtMostABoundedNumberOfTimes(t *testing.T) {
	f := newFairTest(1, 100)
	f.begin("first", 0, 0)
	f.begin("low", 7, 1)
	for range 60 {
		f.begin("high", 0, 1)
	}
	got := f.drain(firstCost)
	if i := slices.Index(got, "low"); i != maxPassed {
		t.Fatalf("the lowest class got slot %d, want %d", i, maxPassed)
	}
}

// The test compares the queue with plain lists while random requests begin, end and
// withdraw. A granted request must be the oldest of its class and key. A shed request
// must be the newest of its key, in the longest flow of the lowest class. The counts
// must be equal, no request may be queued while a slot is free, and the queue must be
// empty at the end.
func TestTheFairQueueMatchesAReferenceOfPlainLists(t *testing.T) {
	type kind struct {
		class uint8
		key   uint64
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit, capacity := 1+random.IntN(4), 1+random.IntN(12)
		now := int64(0)
		a := New(Config{Limit: limit, Capacity: capacity, Fair: true, Clock: func() int64 { return now }})
		model := map[kind][]*Waiter{}
		var holding []*Waiter
		waiting := 0
		fail := func(format string, args ...any) { t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...)) }
		for range 400 {
			switch random.IntN(5) {
			case 0, 1, 2:
				k := kind{uint8(random.IntN(3)), uint64(random.IntN(4))}
				w := &Waiter{Class: k.class, Key: k.key}
				w.Notify = func() {
					list := model[k]
					if w.Shed() {
						if list[len(list)-1] != w {
							fail("shed a request that is not the newest of its key")
						}
						for other, l := range model {
							if len(l) > 0 && (other.class > k.class || other.class == k.class && len(l) > len(list)) {
								fail("shed a request of %v with %d waiters, while %v has %d", k, len(list), other, len(l))
							}
						}
						model[k] = list[:len(list)-1]
						waiting--
						a.Withdraw(w)
						return
					}
					if len(list) == 0 || list[0] != w {
						fail("granted a request that is not the oldest of its key")
					}
					model[k] = list[1:]
					waiting--
					holding = append(holding, w)
				}
				switch a.Acquire(w) {
				case Admitted:
					holding = append(holding, w)
				case Queued:
					model[k] = append(model[k], w)
					waiting++
				case Rejected:
					if waiting < capacity {
						fail("refused with %d of %d places taken", waiting, capacity)
					}
				}
			case 3:
				if len(holding) > 0 {
					i := random.IntN(len(holding))
					w := holding[i]
					holding = slices.Delete(holding, i, i+1)
					now += random.Int64N(1e7)
					a.Charge(w)
					a.Release()
				}
			case 4:
				keys := slices.Collect(maps.Keys(model))
				if len(keys) == 0 {
					break
				}
				k := keys[random.IntN(len(keys))]
				if l := model[k]; len(l) > 0 {
					i := random.IntN(len(l))
					if !a.Withdraw(l[i]) {
						fail("a queued request cannot withdraw")
					}
					model[k] = slices.Delete(slices.Clone(l), i, i+1)
					waiting--
				}
			}
			if len(holding) > limit || a.InFlight() != len(holding) || a.QueueDepth() != waiting || waiting > capacity {
				fail("%d in flight, %d waiting, want %d (limit %d) and %d (capacity %d)",
					a.InFlight(), a.QueueDepth(), len(holding), limit, waiting, capacity)
			}
			if waiting > 0 && len(holding) < limit {
				fail("%d queued while a slot is free", waiting)
			}
		}
		for len(holding) > 0 {
			w := holding[0]
			holding = holding[1:]
			a.Charge(w)
			a.Release()
		}
		if waiting != 0 || a.InFlight() != 0 || a.QueueDepth() != 0 || len(a.fair.flows) != 0 {
			fail("at the end %d wait, %d in flight, %d flows", waiting, a.InFlight(), len(a.fair.flows))
		}
	}
}

func TestRaisedLimitsAdmitQueuedRequestsAndLoweredLimitsApplyAsSlotsAreReleased(t *testing.T) {
	for _, fair := range []bool{false, true} {
		a := New(Config{Limit: 1, Capacity: 10, Fair: fair})
		var got []int
		for i := range 6 {
			w := &Waiter{}
			w.Notify = func() { got = append(got, i) }
			a.Acquire(w)
		}
		a.SetLimit(3)
		if want := []int{1, 2}; !slices.Equal(got, want) {
			t.Fatalf("a limit of 3 granted %v, want %v", got, want)
		}
		wantCounts(t, a, 3, 3)
		a.SetLimit(1)
		a.Release()
		a.Release()
		wantCounts(t, a, 1, 3)
		if a.TryAcquire() {
			t.Fatal("a new request got a slot above the limit")
		}
		a.Release()
		wantCounts(t, a, 1, 2)
		a.SetLimit(8)
		wantCounts(t, a, 3, 0)
		for range 3 {
			a.Release()
		}
		wantCounts(t, a, 0, 0)
	}
}

// The limit changes while requests begin and end: in the end all slots are released,
// and there are never more in flight than the highest limit allows.
func TestAChangingLimitLosesNoSlot(t *testing.T) {
	a := New(Config{Limit: 4, Capacity: 100})
	stop := make(chan struct{})
	var workers []func()
	for range 12 {
		granted := make(chan struct{}, 1)
		w := &Waiter{Notify: func() { granted <- struct{}{} }}
		workers = append(workers, func() {
			for range 2000 {
				if a.Acquire(w) == Queued {
					<-granted
				}
				if n := a.InFlight(); n > 8 {
					t.Errorf("%d in flight", n)
				}
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
				a.SetLimit(1 + random.IntN(8))
			}
		}
	}()
	together(workers...)
	close(stop)
	<-mover
	wantCounts(t, a, 0, 0)
}

func TestRetryAfterIsTheTimeThatTheQueueNeedsToDrain(t *testing.T) {
	a := New(Config{Limit: 1, Capacity: 1000})
	now := int64(1e9)
	wantSeconds := func(want int) {
		t.Helper()
		if got := a.RetryAfter(now); got != want {
			t.Fatalf("Retry-After %d, want %d", got, want)
		}
	}
	wantSeconds(1) // unknown rate, empty queue
	a.TryAcquire()
	for range 101 {
		a.Acquire(&Waiter{Notify: func() {}})
	}
	for range 10 { // ten slots a second
		now += 1e8
		a.Release()
	}
	wantSeconds(10) // 91 are queued
	now += 100e9    // no slot is released for a long time
	wantSeconds(maxRetryAfter)
}
