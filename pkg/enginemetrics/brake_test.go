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
	}{{0.5, false}, {0.9, false}, {0.91, true}, {0.9, true}, {0.86, true}, {0.85, false}, {0.89, false}, {0.95, true}, {0.2, false}} {
		if _, none := b.room(Page{KV: step.kv, HasKV: true, HasWaiting: true}, l, time.Duration(i)); none != step.none {
			t.Errorf("step %d, KV %v: none %v, want %v", i, step.kv, none, step.none)
		}
	}
}

func TestRoomIsWhatTheEnginesQueueLeaves(t *testing.T) {
	for _, c := range []struct {
		waiting, most int
		room          int64
	}{{0, 0, 1}, {1, 0, 0}, {7, 0, -6}, {0, 4, 5}, {4, 4, 1}, {5, 4, 0}} {
		var b brake
		n, none := b.room(Page{Waiting: float64(c.waiting), HasWaiting: true}, Limits{MaxWaiting: c.most, MaxKV: 0.9}, 5)
		if n != c.room || none || (b.fullSince != 0) != (n <= 0) {
			t.Errorf("%+v: room %d, none %v, full since %v", c, n, none, b.fullSince)
		}
	}
}

func TestAMissingMetricDoesNotBrake(t *testing.T) {
	b := brake{full: true}
	if n, none := b.room(Page{Waiting: 0, HasWaiting: true}, Limits{MaxKV: 0.9}, 1); n != 1 || none {
		t.Errorf("%d, %v", n, none)
	}
	if n, none := b.room(Page{KV: 0.1, HasKV: true}, Limits{MaxKV: 0.9}, 1); n < 1<<20 || none {
		t.Errorf("%d, %v", n, none)
	}
}
