package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longestLatency is the largest latency that the histograms record. Longer latencies are
// recorded as longestLatency.
const longestLatency = 5 * time.Minute

// outcome is the result of a request.
type outcome struct {
	status   int   // status of a complete response
	failure  error // reason why the response is incomplete
	keepBusy bool  // worker.finishRequest must not release the connection
}

// A tally has the counts of one worker.
type tally struct {
	Result
	latestEnded           int64 // latest due time of the completed requests
	begin, end, windowEnd int64
	last                  int64
	latency, lateness     *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{
		Result:   Result{Rejected: map[int]int64{}, Errors: map[string]int64{}},
		latency:  hdrhistogram.New(1, int64(longestLatency), 3),
		lateness: hdrhistogram.New(1, int64(longestLatency), 3),
	}
}

func (t *tally) recordResult(now, due int64, result outcome, overtaking time.Duration) {
	if result.failure != nil {
		t.Errors[reason(result.failure)]++
		return
	}
	t.last = now
	if result.status < 200 || result.status > 299 {
		t.Rejected[result.status]++
		return
	}
	t.received(now, now-due)
	if overtaking > 0 {
		if due < t.latestEnded-int64(overtaking) {
			t.Overtaken++
		}
		t.latestEnded = max(t.latestEnded, due)
	}
}

func (t *tally) received(now, latency int64) {
	t.Requests++
	t.last = now
	if now <= t.windowEnd {
		t.Window++
		if i := int((now - t.begin) / int64(TimelineStep)); i >= 0 && i < len(t.Timeline) {
			t.Timeline[i]++
		}
	}
	record(t.latency, latency)
}

func (t *tally) recordLateness(lateness int64) { record(t.lateness, lateness) }

// countUnfinished is called at the timeout of a load. It counts the requests in progress, and
// the due requests that still wait for a connection. It records the time since a request
// was due as the latency of the request.
func (t *tally) countUnfinished(w *worker) {
	t.Unfinished = int64(w.underWay + w.backlog.len())
	for w.backlog.len() > 0 {
		record(t.latency, w.now-w.backlog.pop())
	}
	for _, c := range w.conns {
		if c.busy {
			record(t.latency, w.now-c.due)
		}
		if c.stream != nil {
			for _, s := range c.stream.open {
				if s.busy {
					record(t.latency, w.now-s.due)
				}
			}
		}
	}
}

func record(h *hdrhistogram.Histogram, v int64) {
	// The value is within the bounds of the histogram, so there is no error.
	_ = h.RecordValue(min(max(v, 0), int64(longestLatency)))
}

// reason returns the text of an error, truncated to 120 bytes.
func reason(err error) string {
	text := err.Error()
	return text[:min(len(text), 120)]
}

// The load generator is the bottleneck if a thread uses more than saturatedShare of a
// core, or if it sends requests too late. Too late means that the 99th percentile of the
// lateness exceeds both saturatedLate and saturatedLateShare. The second bound is
// relative, because a small lateness does not matter if requests take much longer.
const (
	saturatedShare     = 0.95
	saturatedLate      = time.Millisecond
	saturatedLateShare = 0.1 // share of the 99th percentile of the latency
)

// merge adds up the tallies of all workers, and detects whether the generator was
// saturated.
func merge(spec *Spec, workers []*worker) *Result {
	sum := newTally()
	r := &sum.Result
	for _, w := range workers {
		t := w.tally
		r.Requests += t.Requests
		r.Window += t.Window
		r.Unfinished += t.Unfinished
		r.Overtaken += t.Overtaken
		r.Timeline = append(r.Timeline, make([]int64, len(t.Timeline)-len(r.Timeline))...)
		for i, n := range t.Timeline {
			r.Timeline[i] += n
		}
		r.BytesIn += t.BytesIn
		r.BytesOut += t.BytesOut
		r.CPU += t.CPU
		r.Elapsed = max(r.Elapsed, time.Duration(t.last-t.begin))
		if d := t.end - t.begin; d > 0 {
			r.Share = max(r.Share, float64(t.CPU)/float64(d))
		}
		for status, n := range t.Rejected {
			r.Rejected[status] += n
		}
		for text, n := range t.Errors {
			r.Errors[text] += n
		}
		sum.latency.Merge(t.latency)
		sum.lateness.Merge(t.lateness)
	}
	r.SendDelay = time.Duration(sum.lateness.ValueAtQuantile(99))
	if r.Count = sum.latency.TotalCount(); r.Count > 0 {
		for _, p := range Percentiles {
			v := sum.latency.ValueAtQuantile(p)
			switch p {
			case 0:
				v = sum.latency.Min()
			case 100:
				v = sum.latency.Max()
			}
			r.Quantiles = append(r.Quantiles, [2]float64{p, float64(v)})
		}
	}
	switch {
	case r.Share > saturatedShare:
		r.Saturated = fmt.Sprintf("its busiest thread took more than %.0f %% of a core", 100*saturatedShare)
	case r.SendDelay > saturatedLate && float64(r.SendDelay) > saturatedLateShare*r.Quantile(99):
		r.Saturated = fmt.Sprintf("it was late by more than %v and %.0f %% of the latency, at the 99th percentile", saturatedLate, 100*saturatedLateShare)
	}
	return r
}
