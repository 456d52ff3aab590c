package metrics

import (
	"slices"
	"testing"
	"time"
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
