package metrics

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// someDuration returns a random duration of any magnitude, also below and above the
// range of the scale.
func someDuration(r *rand.Rand) int64 {
	return int64(math.Exp2(r.Float64() * 52))
}

func TestTheHistogramCellOfAValueMatchesABinarySearch(t *testing.T) {
	r := random(t)
	for name, s := range map[string]*scale{"durations": durations, "sizes": sizes} {
		values := []int64{0, 1, 2, 3, 7, 8, math.MaxInt64}
		for _, b := range s.bounds {
			values = append(values, b, b+1, max(b-1, 0))
		}
		for range 100_000 {
			values = append(values, r.Int64()>>r.IntN(63))
		}
		for _, v := range values {
			if got, want := s.cell(v), s.endOf(v); got != want {
				t.Fatalf("%s: %d is in cell %d, want %d", name, v, got, want)
			}
		}
	}
}

// buckets returns the native buckets of a histogram by index, decoded from spans and
// deltas.
func buckets(h *dto.Histogram) map[int32]int64 {
	all := map[int32]int64{}
	k, n, i := int32(0), int64(0), 0
	for _, span := range h.PositiveSpan {
		k += span.GetOffset()
		for range span.GetLength() {
			n += h.PositiveDelta[i]
			all[k] = n
			k, i = k+1, i+1
		}
	}
	return all
}

func TestBucketsMatchThoseOfTheReferenceHistogram(t *testing.T) {
	for name, c := range map[string]struct {
		scale  *scale
		view   *view
		native bool
		factor float64
		value  func(*rand.Rand) int64
	}{
		"durations":        {durations, durationsCurrent, true, 1.19, someDuration},
		"legacy durations": {durations, durationsLegacy, false, 0, someDuration},
		"sizes":            {sizes, sizesCurrent, true, 2, func(r *rand.Rand) int64 { return r.Int64N(2) * (someDuration(r) >> 14) }},
	} {
		for _, observations := range []int{0, 5, 60, 5000} { // few observations leave gaps between the buckets
			r := random(t)
			original := prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: "x", Buckets: c.view.les,
				NativeHistogramBucketFactor: c.factor, NativeHistogramZeroThreshold: c.scale.nativeEnd(c.scale.lowest),
			})
			ours := newHistogram(c.scale)
			for range observations {
				v := c.value(r)
				if float64(v)/c.scale.perUnit > c.scale.nativeEnd(c.scale.lowest+int32(len(c.scale.native))-1) {
					continue
				}
				ours.observe(v)
				original.Observe(float64(v) / c.view.perUnit)
			}
			var m dto.Metric
			if err := original.Write(&m); err != nil {
				t.Fatal(err)
			}
			all := ours.read()
			compare(t, fmt.Sprintf("%d %s", observations, name), all.show(c.view, c.native), m.Histogram, c.native)
			if n := len(buckets(m.Histogram)); c.native && observations == 5000 && n < 20 {
				t.Errorf("%s: only %d native buckets were compared", name, n)
			}
		}
	}
}

func compare(t *testing.T, name string, got, want *dto.Histogram, native bool) {
	t.Helper()
	if got.GetSampleCount() != want.GetSampleCount() || math.Abs(got.GetSampleSum()-want.GetSampleSum()) > 1e-9*want.GetSampleSum() {
		t.Errorf("%s: count %d, sum %v, want %d, %v", name, got.GetSampleCount(), got.GetSampleSum(), want.GetSampleCount(), want.GetSampleSum())
	}
	if !slices.EqualFunc(got.Bucket, want.Bucket, func(g, w *dto.Bucket) bool {
		return g.GetUpperBound() == w.GetUpperBound() && g.GetCumulativeCount() == w.GetCumulativeCount()
	}) {
		t.Errorf("%s: buckets %v, want %v", name, got.Bucket, want.Bucket)
	}
	if !native {
		if got.Schema != nil {
			t.Errorf("%s: native buckets", name)
		}
		return
	}
	if got.GetSchema() != want.GetSchema() || got.GetZeroThreshold() != want.GetZeroThreshold() || got.GetZeroCount() != want.GetZeroCount() {
		t.Errorf("%s: schema %d, zero %v: %d, want %d, %v: %d", name,
			got.GetSchema(), got.GetZeroThreshold(), got.GetZeroCount(),
			want.GetSchema(), want.GetZeroThreshold(), want.GetZeroCount())
	}
	// Between two native buckets, client_golang fills short gaps with empty buckets, and
	// the gate does not. So compare only the buckets that are not empty.
	wanted := buckets(want)
	maps.DeleteFunc(wanted, func(_ int32, n int64) bool { return n == 0 })
	if g := buckets(got); !maps.Equal(g, wanted) {
		t.Errorf("%s: native buckets %v, want %v", name, g, wanted)
	}
}

func TestABucketIncludesItsUpperBound(t *testing.T) {
	h := newHistogram(durations)
	h.observe(5_000_000)
	h.observe(5_000_001)
	all := h.read()
	shown := all.show(durationsCurrent, false)
	i := slices.Index(currentSeconds, 0.005)
	if below, next := shown.Bucket[i].GetCumulativeCount(), shown.Bucket[i+1].GetCumulativeCount(); below != 1 || next != 2 {
		t.Errorf("%d up to 5 ms, %d up to 10 ms, want 1, 2", below, next)
	}
}

func TestAHistogramCountsOverlargeValuesInTheLastBucketAndNegativeValuesAsZero(t *testing.T) {
	h := newHistogram(durations)
	h.observe(math.MaxInt64 / 2)
	h.observe(-5)
	all := h.read()
	shown := all.show(durationsCurrent, true)
	if got := buckets(shown); len(got) != 1 || got[69] != 1 || shown.GetZeroCount() != 1 {
		t.Errorf("native buckets %v, zero %d", got, shown.GetZeroCount())
	}
	if shown.GetSampleCount() != 2 || shown.Bucket[0].GetCumulativeCount() != 1 || shown.Bucket[len(shown.Bucket)-1].GetCumulativeCount() != 1 {
		t.Errorf("%v", shown)
	}
}

func TestHistogramsLoseNoConcurrentObservation(t *testing.T) {
	h := newHistogram(durations)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 5000 {
				h.observe(int64(g * i))
			}
		})
	}
	all.Wait()
	sum := h.read()
	if want := int64(28 * 4999 * 5000 / 2); sum.count != 40_000 || sum.sum != want {
		t.Errorf("count %d, sum %d, want 40000, %d", sum.count, sum.sum, want)
	}
}
