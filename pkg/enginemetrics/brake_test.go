package enginemetrics

import (
	"slices"
	"testing"
	"time"
)

func TestKVUsageMustFallBelowTheThresholdBeforeRequestsAreAdmittedAgain(t *testing.T) {
	var b brake
	l := Limits{MaxWaiting: 0, MaxKV: 0.9}
	for i, step := range []struct {
		kv   float64
		none bool
	}{{0.5, false}, {0.9, false}, {0.91, true}, {0.9, true}, {0.885, true}, {0.88, false}, {0.89, false}, {0.95, true}, {0.2, false}} {
		if _, none := b.room(Page{KV: step.kv, HasKV: true, HasWaiting: true}, l, counts{}, time.Duration(i)); none != step.none {
			t.Errorf("step %d, KV %v: none %v, want %v", i, step.kv, none, step.none)
		}
	}
}

func TestRoomIsOneMoreThanMaxWaitingMinusTheQueuedRequests(t *testing.T) {
	for _, c := range []struct {
		waiting, most int
		room          int64
	}{{0, 0, 1}, {1, 0, 0}, {7, 0, 0}, {0, 4, 5}, {4, 4, 1}, {5, 4, 0}} {
		var b brake
		n, none := b.room(Page{Waiting: float64(c.waiting), HasWaiting: true}, Limits{MaxWaiting: c.most, MaxKV: 0.9}, counts{}, 5)
		if n != c.room || none || (b.fullSince != 0) != (n <= 0) {
			t.Errorf("%+v: room %d, none %v, full since %v", c, n, none, b.fullSince)
		}
	}
}

func TestAMetricMissingFromTheEnginePageDoesNotLimitAdmission(t *testing.T) {
	b := brake{full: true}
	if n, none := b.room(Page{Waiting: 0, HasWaiting: true}, Limits{MaxKV: 0.9}, counts{}, 1); n != 1 || none {
		t.Errorf("%d, %v", n, none)
	}
	if n, none := b.room(Page{KV: 0.1, HasKV: true}, Limits{MaxKV: 0.9}, counts{}, 1); n < 1<<20 || none {
		t.Errorf("%d, %v", n, none)
	}
}

func TestNoRequestIsAdmittedBeforeThePageShowsThePreviousOne(t *testing.T) {
	var b brake
	l := Limits{MaxWaiting: 0, MaxKV: 0.9}
	page := Page{HasWaiting: true, HasRunning: true, HasKV: true}
	for i, step := range []struct {
		inFlight int
		running  float64
		room     int64
	}{{0, 0, 1}, {1, 0, 0}, {1, 0, 0}, {1, 1, 1}, {2, 1, 0}, {2, 2, 1}, {2, 3, 1}, {3, 2, 0}, {3, 3, 1}} {
		page.Running = step.running
		if n, _ := b.room(page, l, counts{inFlight: step.inFlight, admissions: uint64(i)}, time.Duration(i)*20*time.Millisecond); n != step.room {
			t.Errorf("step %d, %d in flight, %v running: room %d, want %d", i, step.inFlight, step.running, n, step.room)
		}
	}
}

func TestRequestsHiddenFromTheEnginePageBlockAdmissionOnlyBriefly(t *testing.T) {
	var b brake
	l := Limits{MaxWaiting: 0, MaxKV: 0.9}
	page := Page{Running: 4, HasWaiting: true, HasRunning: true, HasKV: true}
	const uploads = 5
	var blocked time.Duration
	for now := time.Duration(0); now < 10*time.Second; now += 20 * time.Millisecond {
		if n, _ := b.room(page, l, counts{inFlight: 4 + uploads, admissions: 4 + uploads}, now); n <= 0 {
			blocked = now
		}
	}
	if blocked > 2*unseenWindow {
		t.Errorf("%d slow uploads brake for %v, want at most %v", uploads, blocked, 2*unseenWindow)
	}
}

func TestMaxKVOneMeansNoLimit(t *testing.T) {
	b := brake{full: true} // a lower MaxKV was in force before, and KV exceeded it
	for _, kv := range []float64{0.99, 1, 1.02, 95} {
		if n, none := b.room(Page{KV: kv, HasKV: true, HasWaiting: true}, Limits{MaxKV: 1}, counts{}, 1); n != 1 || none {
			t.Errorf("KV %v: room %d, none %v", kv, n, none)
		}
	}
}

// steppingEngine is a server whose page changes at the end of each step. A request that
// arrives during a step runs in the next one. A request that ends during a step stays on
// the page until the step ends.
type steppingEngine struct {
	running, arrived []time.Duration // times at which the requests end
	page             Page
	nextUpdate       time.Duration
}

const engineStep, enginePeriod = 60 * time.Millisecond, 20 * time.Millisecond

func (e *steppingEngine) fetch(now time.Duration) Page {
	for now >= e.nextUpdate {
		at := e.nextUpdate
		e.running = slices.DeleteFunc(e.running, func(end time.Duration) bool { return end <= at })
		e.page = Page{Running: float64(len(e.running)), KV: float64(at/engineStep%7) / 10, HasRunning: true, HasWaiting: true, HasKV: true}
		e.running = append(e.running, e.arrived...)
		e.arrived = nil
		e.nextUpdate += engineStep
	}
	return e.page
}

// brakeLoad is a load of unlimited demand for 10 s.
type brakeLoad struct {
	lasting int // requests that the page shows all the time
	// hidden returns the duration of the request with a number if the page never shows
	// it; 0 = the page shows it, and it takes 2 s.
	hidden func(number int) time.Duration
}

// run returns the number of shown and of hidden requests that a brake admitted.
func (l brakeLoad) run() (shown, hidden int) {
	var b brake
	e := &steppingEngine{running: slices.Repeat([]time.Duration{time.Hour}, l.lasting)}
	var open []time.Duration // times at which the hidden requests in flight end
	admissions := l.lasting
	for now := time.Duration(0); now < 10*time.Second && shown+hidden < 5000; now += enginePeriod {
		page := e.fetch(now)
		open = slices.DeleteFunc(open, func(end time.Duration) bool { return end <= now })
		inFlight := len(open) + len(e.arrived)
		for _, end := range e.running {
			if end > now {
				inFlight++
			}
		}
		n, _ := b.room(page, Limits{MaxKV: 1}, counts{inFlight: inFlight, admissions: uint64(admissions)}, now)
		for range n {
			admissions++
			if took := l.hidden(admissions); took > 0 {
				open = append(open, now+took)
				hidden++
			} else {
				e.arrived = append(e.arrived, now+2*time.Second)
				shown++
			}
		}
	}
	return shown, hidden
}

func TestRequestsHiddenFromTheEnginePageDoNotBlockShownRequests(t *testing.T) {
	for _, took := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second} {
		shown, hidden := brakeLoad{lasting: 10, hidden: func(number int) time.Duration { return took * time.Duration(number%2) }}.run()
		if shown < 30 || hidden < 30 {
			t.Errorf("hidden requests of %v: %d shown and %d hidden requests were admitted in 10 s, want at least 30 of each", took, shown, hidden)
		}
	}
}

func TestRequestsHiddenFromTheEnginePageDoNotBlockEachOther(t *testing.T) {
	for _, took := range []time.Duration{50 * time.Millisecond, 180 * time.Millisecond, time.Second} {
		for _, lasting := range []int{0, 1} {
			_, hidden := brakeLoad{lasting: lasting, hidden: func(int) time.Duration { return took }}.run()
			if hidden < 40 {
				t.Errorf("%d requests of %v were admitted in 10 s beside %d shown requests, want at least 40", hidden, took, lasting)
			}
		}
	}
}
