package metrics

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestTotalsSumOverRouteTagsAndCodesWithoutTunnelDurations(t *testing.T) {
	r := NewRequests()
	for _, x := range []gate.Record{
		{Status: 200, Ended: time.Millisecond, RequestBody: 3, ResponseBody: 10},
		{Status: 503, Ended: time.Millisecond, RouteTag: []byte("a"), RequestBody: 4},
		{Status: 101, Ended: time.Hour, Outcome: gate.Tunnelled, ResponseBody: 5},
		{Status: 200, Ended: 1000 * time.Hour},
	} {
		x.Outcome, x.Forwarded = cmp.Or(x.Outcome, gate.Served), 1
		r.Observe(&x, untraced)
	}
	var got Totals
	r.ReadTotals(&got)
	bounds := DurationBounds()
	want := make([]uint64, len(bounds)+1)
	want[slices.Index(bounds, time.Millisecond)] = 2
	want[len(bounds)] = 1
	if !slices.Equal(got.Durations, want) {
		t.Errorf("durations by cell: %v, want %v", got.Durations, want)
	}
	if !slices.Equal(got.Outcomes[:3], []uint64{0, 3, 1}) || got.RequestBytes != 7 || got.ResponseBytes != 15 {
		t.Errorf("outcomes %v, bytes %d and %d", got.Outcomes, got.RequestBytes, got.ResponseBytes)
	}
}

func TestDurationsExcludeRequestsThatDidNotReachTheContainer(t *testing.T) {
	r := NewRequests()
	want := 0
	for _, x := range []struct {
		outcome gate.Outcome
		reached bool
		counts  int
	}{
		{gate.Served, true, 1}, {gate.QueueFull, false, 0}, {gate.QueueWaitExpired, false, 0}, {gate.MethodNotAllowed, false, 0},
		{gate.ClientGone, false, 0}, {gate.ClientGone, true, 1}, {gate.RequestTimeout, false, 0}, {gate.RequestTimeout, true, 1},
		{gate.UpstreamNotListening, false, 0}, {gate.UpstreamReset, true, 1},
	} {
		seen := gate.Record{Status: 503, Outcome: x.outcome, Ended: time.Millisecond}
		if x.reached {
			seen.Forwarded = 1
		}
		r.Observe(&seen, untraced)
		want += x.counts
		var got Totals
		r.ReadTotals(&got)
		if sum := got.Durations[slices.Index(DurationBounds(), time.Millisecond)]; sum != uint64(want) {
			t.Fatalf("%v, reached %t: %d durations, want %d", x.outcome, x.reached, sum, want)
		}
	}
}

func TestReadTotalsReplacesThePreviousTotalsWithoutAnAllocation(t *testing.T) {
	r := NewRequests()
	r.Observe(&gate.Record{Status: 200, Forwarded: 1, Ended: time.Second}, untraced)
	var got Totals
	r.ReadTotals(&got)
	if n := testing.AllocsPerRun(10, func() { r.ReadTotals(&got) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if sum := got.Durations[slices.Index(DurationBounds(), time.Second)]; sum != 1 {
		t.Errorf("%d requests of 1 s, want 1", sum)
	}
}

func TestEachPowerOfTwoInSecondsIsABucketBound(t *testing.T) {
	bounds := DurationBounds()
	for k := -20; k <= 17; k++ {
		d := time.Second << max(k, 0) >> max(-k, 0)
		if _, found := slices.BinarySearch(bounds, d); !found {
			t.Errorf("%v (2^%d s) is no bound", d, k)
		}
	}
}
