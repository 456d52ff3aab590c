package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/queuegate/queuegate/pkg/gate"
)

// traceLabel is the only label of an exemplar. OpenMetrics uses this name for trace ids.
// OpenMetrics limits the labels of an exemplar to 128 characters. This label has 40: 8 in
// the name and 32 in the value, which is the trace id in hexadecimal.
const traceLabel = "trace_id"

// exemplar is a traced request. The zero value means that there is none.
type exemplar struct {
	trace gate.TraceID
	value int64 // observed value in units of the histogram
	at    time.Time
}

// exemplars holds the last traced request of each classic bucket of durationsCurrent.
// Only traced requests and scrapes take the lock.
type exemplars struct {
	mu   sync.Mutex
	last []exemplar
}

// trace makes a request the exemplar of its bucket. The parameter v is the value that was
// observed for the request. The first call for a histogram allocates memory.
func (h *histogram) trace(v int64, id gate.TraceID, at time.Time) {
	e := h.traced.Load()
	if e == nil {
		h.traced.CompareAndSwap(nil, &exemplars{last: make([]exemplar, len(durationsCurrent.cuts)+1)})
		e = h.traced.Load()
	}
	v = max(v, 0)
	bucket, _ := slices.BinarySearch(durationsCurrent.cuts, durations.cell(v))
	e.mu.Lock()
	e.last[bucket] = exemplar{id, v, at}
	e.mu.Unlock()
}

// exemplars returns the exemplars of all buckets, in ascending order of value.
func (h *histogram) exemplars() (all []exemplar) {
	e := h.traced.Load()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.last {
		if x.trace != (gate.TraceID{}) {
			all = append(all, x)
		}
	}
	return all
}

// withExemplars adds the exemplars to m. A classic bucket gets its latest exemplar;
// native buckets get all exemplars.
func withExemplars(m prometheus.Metric, v *view, all []exemplar) prometheus.Metric {
	slices.SortStableFunc(all, func(a, b exemplar) int { return a.at.Compare(b.at) })
	shown := make([]prometheus.Exemplar, len(all))
	for i, x := range all {
		shown[i] = prometheus.Exemplar{
			Value:     float64(x.value) / v.perUnit,
			Labels:    prometheus.Labels{traceLabel: x.trace.String()},
			Timestamp: x.at,
		}
	}
	return prometheus.MustNewMetricWithExemplars(m, shown...)
}
