package enginemetrics

import (
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
		if _, none := b.room(Page{KV: step.kv, HasKV: true, HasWaiting: true}, l, 0, time.Duration(i)); none != step.none {
			t.Errorf("step %d, KV %v: none %v, want %v", i, step.kv, none, step.none)
		}
	}
}

func TestRoomIsOneMoreThanMaxWaitingMinusTheQueuedRequests(t *testing.T) {
	for _, c := range []struct {
		waiting, most int
		room          int64
	}{{0, 0, 1}, {1, 0, 0}, {7, 0, -6}, {0, 4, 5}, {4, 4, 1}, {5, 4, 0}} {
		var b brake
		n, none := b.room(Page{Waiting: float64(c.waiting), HasWaiting: true}, Limits{MaxWaiting: c.most, MaxKV: 0.9}, 0, 5)
		if n != c.room || none || (b.fullSince != 0) != (n <= 0) {
			t.Errorf("%+v: room %d, none %v, full since %v", c, n, none, b.fullSince)
		}
	}
}

func TestAMissingMetricDoesNotBrake(t *testing.T) {
	b := brake{full: true}
	if n, none := b.room(Page{Waiting: 0, HasWaiting: true}, Limits{MaxKV: 0.9}, 0, 1); n != 1 || none {
		t.Errorf("%d, %v", n, none)
	}
	if n, none := b.room(Page{KV: 0.1, HasKV: true}, Limits{MaxKV: 0.9}, 0, 1); n < 1<<20 || none {
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
		if n, _ := b.room(page, l, step.inFlight, time.Duration(i)*20*time.Millisecond); n != step.room {
			t.Errorf("step %d, %d in flight, %v running: room %d, want %d", i, step.inFlight, step.running, n, step.room)
		}
	}
}

func TestRequestsThatNeverAppearOnThePageDoNotBrakeForLong(t *testing.T) {
	var b brake
	l := Limits{MaxWaiting: 0, MaxKV: 0.9}
	page := Page{Running: 4, HasWaiting: true, HasRunning: true, HasKV: true}
	const uploads = 5
	var blocked time.Duration
	for now := time.Duration(0); now < 10*time.Second; now += 20 * time.Millisecond {
		if n, _ := b.room(page, l, 4+uploads, now); n <= 0 {
			blocked = now
		}
	}
	if blocked > 2*unseenWindow {
		t.Errorf("%d slow uploads brake for %v, want at most %v", uploads, blocked, 2*unseenWindow)
	}
}

func TestMaxKVOneMeansNoLimit(t *testing.T) {
	b := brake{full: true} // as after a live change from a lower value
	for _, kv := range []float64{0.99, 1, 1.02, 95} {
		if n, none := b.room(Page{KV: kv, HasKV: true, HasWaiting: true}, Limits{MaxKV: 1}, 0, 1); n != 1 || none {
			t.Errorf("KV %v: room %d, none %v", kv, n, none)
		}
	}
}

// The page shows a request that has ended for one more step, so that the difference is
// sometimes smaller than the number of requests that the page never shows.
func TestRequestsThatThePageNeverShowsDoNotBrakeWhileOthersEnd(t *testing.T) {
	const never = 4
	var b brake
	for i := range 200 {
		stale := i % 3 // ended requests that are still on the page
		p := Page{Running: float64(8 + stale), HasRunning: true, HasWaiting: true}
		n, _ := b.room(p, Limits{MaxKV: 1}, 8+never, time.Duration(i)*20*time.Millisecond)
		if i > 150 && n < 1 && stale > 0 {
			t.Fatalf("page %d, %d ended requests on it: room %d", i, stale, n)
		}
	}
}
