package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestTotalsSumOverRouteTagsAndCodesAndLeaveOutHowLongTunnelsLasted(t *testing.T) {
	r := NewRequests([]string{"served", "tunnelled"})
	for _, x := range []Record{
		{Status: 200, Total: time.Millisecond, RequestBytes: 3, ResponseBytes: 10},
		{Status: 503, Total: time.Millisecond, Route: TagOther, RequestBytes: 4},
		{Status: 101, Total: time.Hour, Outcome: 1, ResponseBytes: 5},
		{Status: 200, Total: 1000 * time.Hour},
	} {
		r.Observe(&x)
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
	if !slices.Equal(got.Outcomes, []uint64{3, 1}) || got.RequestBytes != 7 || got.ResponseBytes != 15 {
		t.Errorf("outcomes %v, bytes %d and %d", got.Outcomes, got.RequestBytes, got.ResponseBytes)
	}
}

func TestDurationsAreThoseOfRequestsThatWentToTheContainerOrFailedOnTheWay(t *testing.T) {
	names := make([]string, len(gate.Outcomes()))
	r := NewRequests(names)
	want := 0
	for _, x := range []struct {
		outcome gate.Outcome
		reached bool
		counts  int
	}{
		{gate.Served, true, 1}, {gate.QueueFull, false, 0}, {gate.QueueWaitExpired, false, 0}, {gate.MethodNotAllowed, false, 0},
		{gate.ClientGone, false, 0}, {gate.ClientGone, true, 1}, {gate.RequestTimeout, false, 1}, {gate.RequestTimeout, true, 1},
		{gate.UpstreamNotListening, false, 1}, {gate.UpstreamReset, true, 1},
	} {
		r.Observe(&Record{Status: 503, Outcome: uint8(x.outcome), Reached: x.reached, Total: time.Millisecond})
		want += x.counts
		var got Totals
		r.ReadTotals(&got)
		if sum := got.Durations[slices.Index(DurationBounds(), time.Millisecond)]; sum != uint64(want) {
			t.Fatalf("%v, reached %t: %d durations, want %d", x.outcome, x.reached, sum, want)
		}
	}
}

func TestReadingTotalsAgainStartsFromZeroAndAllocatesNothing(t *testing.T) {
	r := NewRequests([]string{"served"})
	r.Observe(&Record{Status: 200, Total: time.Second})
	var got Totals
	r.ReadTotals(&got)
	if n := testing.AllocsPerRun(10, func() { r.ReadTotals(&got) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if sum := got.Durations[slices.Index(DurationBounds(), time.Second)]; sum != 1 {
		t.Errorf("%d requests of 1 s, want 1", sum)
	}
}

func TestEveryPowerOfTwoOfASecondEndsACell(t *testing.T) {
	bounds := DurationBounds()
	for k := -20; k <= 17; k++ {
		d := time.Second << max(k, 0) >> max(-k, 0)
		if _, found := slices.BinarySearch(bounds, d); !found {
			t.Errorf("%v (2^%d s) is no bound", d, k)
		}
	}
}
