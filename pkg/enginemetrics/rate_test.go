package enginemetrics

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// servingEngine is a server that runs up to a number of requests at a time, in steps. A
// request that arrives during a step runs in the next one, if the server has room. The
// page shows the state at the end of the latest step.
type servingEngine struct {
	sequences int                                   // maximum number of running requests
	step      time.Duration                         // duration of a step
	took      func(random *rand.Rand) time.Duration // duration of the next request
	kv        float64                               // share of the KV cache that a request uses

	arrived, waiting, running []*servedRequest
	page                      Page
	ended                     int // number of requests that have ended
	// Numbers of requests that have started after warmUp, and of those that have started in
	// the same step as another one.
	started, together int
}

type servedRequest struct {
	admission.Ticket
	took, end time.Duration
}

// warmUp is the time until the cache of the engine is full.
const warmUp = 10 * time.Second

// next ends a step, updates the page and begins the next step.
func (e *servingEngine) next(a *admission.Controller, now time.Duration) {
	var ended []*servedRequest
	e.running = slices.DeleteFunc(e.running, func(r *servedRequest) bool {
		if r.end <= now {
			ended = append(ended, r)
		}
		return r.end <= now
	})
	e.page = Page{
		Running: float64(len(e.running)), Waiting: float64(len(e.waiting)),
		KV:         e.kv*float64(len(e.running)) + float64(now/e.step%7)/1000, // so that each step changes the page
		HasRunning: true, HasWaiting: true, HasKV: true,
	}
	e.waiting = append(e.waiting, e.arrived...)
	e.arrived = nil
	starts := min(len(e.waiting), e.sequences-len(e.running))
	for _, r := range e.waiting[:starts] {
		r.end = now + r.took
		e.running = append(e.running, r)
	}
	e.waiting = e.waiting[starts:]
	if now > warmUp {
		e.started += starts
		if starts > 1 {
			e.together += starts
		}
	}
	e.ended += len(ended)
	for _, r := range ended {
		r.Release(a)
	}
}

// serve runs the engine behind a brake for one minute of virtual time. There are always
// more requests than the engine can run. The gate reads the page once per period.
func (e *servingEngine) serve(period time.Duration) {
	random := rand.New(rand.NewPCG(1, 1))
	a := admission.New(admission.Config{Capacity: 1000, Brake: true})
	var b brake
	for now := time.Duration(0); now < time.Minute; now += time.Millisecond {
		for a.QueueDepth() < 1000 {
			r := &servedRequest{took: e.step + e.took(random)}
			r.Waiter.Notify = func() { e.arrived = append(e.arrived, r) }
			if r.Acquire(a) == admission.Admitted {
				r.Waiter.Notify()
			}
		}
		if now%e.step == 0 {
			e.next(a, now)
		}
		if now%period == 0 {
			n, none := b.room(e.page, Limits{MaxKV: 0.9}, counts{inFlight: a.InFlight(), admissions: a.Admissions()}, now)
			if none {
				n = admission.NoRoom
			}
			a.SetRoom(n, a.Admissions())
		}
	}
}

func exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(random *rand.Rand) time.Duration { return time.Duration(random.ExpFloat64() * float64(mean)) }
}

func constant(took time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return took }
}

func TestTheEngineReachesAMinimumShareOfItsCapacity(t *testing.T) {
	for _, sequences := range []int{8, 64, 256} {
		for mean, want := range map[time.Duration]float64{100 * time.Millisecond: 0.4, 500 * time.Millisecond: 0.6, 4 * time.Second: 0.75} {
			for name, took := range map[string]func(*rand.Rand) time.Duration{"constant": constant(mean), "exponential": exponential(mean)} {
				for _, step := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
					for _, period := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
						e := servingEngine{sequences: sequences, step: step, took: took}
						e.serve(period)
						capacity := float64(sequences) / (mean + step).Seconds() * 60
						if share := float64(e.ended) / capacity; share < want {
							t.Errorf("%d requests of %v (%s) at a time, steps of %v, a page per %v: %.2f of the capacity, want at least %v", sequences, mean, name, step, period, share, want)
						}
					}
				}
			}
		}
	}
}

func TestAnEngineWithAFullCacheRarelyStartsTwoRequestsInOneStep(t *testing.T) {
	// 0.9 of the cache holds 48 requests of 2 s, so that about 24 per second end.
	e := servingEngine{sequences: 256, step: 10 * time.Millisecond, took: exponential(2 * time.Second), kv: 1.0 / 54}
	e.serve(20 * time.Millisecond)
	if e.started < 1000 || e.together > e.started/100 {
		t.Errorf("%d requests started, %d of them together with another one; want at least 1000, and at most 1 %% of them together", e.started, e.together)
	}
}

// measure passes measurements of 20 pages each to a pace, and returns the last result.
func (a *pace) measure(measurements int, unseen int64, busy, updated bool) (result int64) {
	from := a.startedAt
	for i := range measurements * 20 {
		result = a.add(unseen, 0, busy, updated, from+time.Duration(i+1)*paceWindow/20)
	}
	return result
}

func TestPaceGrowsOnlyIfItIsUsedAndTheEngineIsNotBusy(t *testing.T) {
	for _, c := range []struct {
		name          string
		unseen        int64
		busy, updated bool
		least, most   int64
	}{
		{"all is used", 10, false, true, 15, 25},
		{"little is used", 1, false, true, 3, 5},
		{"the engine is busy", 10, true, true, 3, 5},
		{"the page is not updated", 10, false, false, 10, 10},
	} {
		a := pace{value: 10}
		if got := a.measure(5, c.unseen, c.busy, c.updated); got < c.least || got > c.most {
			t.Errorf("%s: the pace of 10 becomes %d in five measurements, want %d to %d", c.name, got, c.least, c.most)
		}
	}
	a := pace{value: 10}
	if got := a.measure(60, 0, false, true); got != 1 {
		t.Errorf("without requests the pace becomes %d, want 1", got)
	}
}

func TestInvalidPagesDoNotEndTheMeasurementOfThePace(t *testing.T) {
	a := pace{value: 2}
	for i := range time.Duration(100) {
		if i%10 == 0 {
			a.skip()
		}
		a.add(2, 0, false, true, i*paceWindow/20)
	}
	if a.value < 3 {
		t.Errorf("the pace of 2 becomes %.2f, want at least 3", a.value)
	}
}

func TestSlowUploadsDoNotRaiseThePace(t *testing.T) {
	var b brake
	page := Page{HasRunning: true, HasWaiting: true, HasKV: true}
	uploads := 0
	for now := time.Duration(0); now < 10*time.Second; now += 20 * time.Millisecond {
		page.KV = float64(now/(20*time.Millisecond)%7) / 1000 // so that each page is an update
		n, _ := b.room(page, Limits{MaxKV: 0.9}, counts{inFlight: uploads, uploading: uploads, admissions: uint64(uploads)}, now)
		if n != 1 {
			t.Fatalf("after %v, with %d uploads: room for %d requests, want 1", now, uploads, n)
		}
		uploads++
	}
}
