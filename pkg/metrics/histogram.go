package metrics

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/atomic"
)

// The scales of all histograms. Durations are recorded in ns, with four native buckets
// per octave from 1 µs to 36 h. Sizes are recorded in bytes, with one native bucket per
// octave up to 1 TiB. Larger values are counted in the last bucket.
var (
	durations = newScale(1e9, 2, -80, 68, currentSeconds, toSeconds(legacyMilliseconds))
	sizes     = newScale(1, 0, -1, 40, bodyBytes)

	durationsCurrent = durations.view(1e9, currentSeconds)
	durationsLegacy  = durations.view(1e6, legacyMilliseconds)
	sizesCurrent     = sizes.view(1, bodyBytes)
)

// The upper bounds of the classic histogram buckets: durations in seconds, durations
// under their legacy names in milliseconds, and sizes of bodies in bytes.
var (
	// Knative's bounds, and five lower ones.
	currentSeconds = []float64{
		0.0001, 0.00025, 0.0005, 0.001, 0.0025,
		0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
	}
	legacyMilliseconds = []float64{
		5, 10, 20, 40, 60, 80, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900,
		1000, 2000, 5000, 10000, 20000, 50000, 100000,
	}
	bodyBytes = []float64{
		0, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
		1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30,
	}
)

func toSeconds(milliseconds []float64) []float64 {
	seconds := make([]float64, len(milliseconds))
	for i, ms := range milliseconds {
		seconds[i] = ms / 1000
	}
	return seconds
}

// histogram counts values by cell of its scale. An observation costs at most two atomic
// additions.
type histogram struct {
	scale  *scale
	sum    atomic.Int64
	cells  []atomic.Uint64
	traced atomic.Pointer[exemplars] // nil until the first traced request
}

func newHistogram(s *scale) *histogram {
	return &histogram{scale: s, cells: make([]atomic.Uint64, len(s.bounds)+1)}
}

// observe counts a negative value as 0.
func (h *histogram) observe(v int64) {
	v = max(v, 0)
	h.cells[h.scale.cell(v)].Inc()
	if v != 0 { // 0 is frequent
		h.sum.Add(v)
	}
}

// reading is a snapshot of a histogram.
type reading struct {
	scale *scale
	cells []uint64
	count uint64
	sum   int64

	exemplars []exemplar
}

func (h *histogram) read() reading {
	r := reading{scale: h.scale, exemplars: h.exemplars()}
	// Read the cells after the exemplars. Each request is counted in a cell before it
	// becomes an exemplar, so the cells then include every exemplar that was read.
	r.cells, r.sum = make([]uint64, len(h.cells)), h.sum.Load()
	for i := range h.cells {
		r.cells[i] = h.cells[i].Load()
		r.count += r.cells[i]
	}
	return r
}

// add adds o, which must have the same scale.
func (r *reading) add(o *reading) {
	for i, n := range o.cells {
		r.cells[i] += n
	}
	r.count += o.count
	r.sum += o.sum
	r.exemplars = slices.Concat(r.exemplars, o.exemplars)
}

// show converts r for client_golang, with the classic buckets of v. If the parameter
// native is true, show adds native buckets, which scrapers get only in the protobuf
// format.
func (r *reading) show(v *view, native bool) *dto.Histogram {
	sum := float64(r.sum) / v.perUnit
	h := &dto.Histogram{SampleCount: &r.count, SampleSum: &sum, Bucket: make([]*dto.Bucket, len(v.les))}
	all, counts := make([]dto.Bucket, len(v.les)), make([]uint64, len(v.les))
	below, next := uint64(0), 0
	for i, cut := range v.cuts {
		for ; next <= cut; next++ {
			below += r.cells[next]
		}
		counts[i] = below
		all[i].CumulativeCount, all[i].UpperBound = &counts[i], &v.les[i]
		h.Bucket[i] = &all[i]
	}
	if native {
		r.showNative(h)
	}
	return h
}

func (r *reading) showNative(h *dto.Histogram) {
	s := r.scale
	zeroThreshold, zero := s.nativeEnd(s.lowest), uint64(0)
	h.Schema, h.ZeroThreshold, h.ZeroCount = &s.schema, &zeroThreshold, &zero
	next, before, previous := 0, int64(0), int32(math.MinInt32)
	for i := 0; i <= len(s.native); i++ {
		end := len(r.cells) - 1 // the last native bucket includes all larger values
		if i < len(s.native) {
			end = s.native[i]
		}
		n := uint64(0)
		for ; next <= end; next++ {
			n += r.cells[next]
		}
		switch k := s.lowest + int32(i); {
		case i == 0:
			zero = n
		case n > 0:
			// A span is a run of consecutive buckets. Its offset is the number of empty
			// buckets before it.
			if last := len(h.PositiveSpan) - 1; last >= 0 && k == previous+1 {
				*h.PositiveSpan[last].Length++
			} else {
				offset, length := k, uint32(1)
				if last >= 0 {
					offset = k - previous - 1
				}
				h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: &offset, Length: &length})
			}
			h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
			before, previous = int64(n), k
		}
	}
}
