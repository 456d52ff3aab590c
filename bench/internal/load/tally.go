package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longestLatency is the largest that the histograms hold; longer ones count as
// this.
const longestLatency = 5 * time.Minute

// outcome is how a request ended.
type outcome struct {
	status  int   // of a whole answer
	failure error // of one that is not whole
	held    bool  // its place on the connection is not free yet
}

// A tally is what one worker counts.
type tally struct {
	requests, window      int64
	refused               map[int]int64
	errors                map[string]int64
	left                  int64
	overtaken             int64
	timeline              []int64 // nil = it is not wanted
	latestEnded           int64   // the latest due time of those that ended
	bytesIn, bytesOut     int64
	begin, end, windowEnd int64
	last                  int64
	cpu                   time.Duration
	latency, lateness     *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{
		refused:  map[int]int64{},
		errors:   map[string]int64{},
		latency:  hdrhistogram.New(1, int64(longestLatency), 3),
		lateness: hdrhistogram.New(1, int64(longestLatency), 3),
	}
}

func (t *tally) finished(now, due int64, how outcome, overtaking time.Duration) {
	if how.failure != nil {
		t.errors[reason(how.failure)]++
		return
	}
	t.last = now
	if how.status < 200 || how.status > 299 {
		t.refused[how.status]++
		return
	}
	t.received(now, now-due)
	if overtaking > 0 {
		if due < t.latestEnded-int64(overtaking) {
			t.overtaken++
		}
		t.latestEnded = max(t.latestEnded, due)
	}
}

// received counts a success and its latency.
func (t *tally) received(now, latency int64) {
	t.requests++
	t.last = now
	if now <= t.windowEnd {
		t.window++
		if i := int((now - t.begin) / int64(TimelineStep)); i >= 0 && i < len(t.timeline) {
			t.timeline[i]++
		}
	}
	record(t.latency, latency)
}

func (t *tally) late(by int64) { record(t.lateness, by) }

// unfinished counts what is under way at the timeout, with its age.
func (t *tally) unfinished(w *worker) {
	t.left = int64(w.underWay + w.backlog.len())
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
	// The bounds are those of the histogram, so this cannot fail.
	_ = h.RecordValue(min(max(v, 0), int64(longestLatency)))
}

// reason is the error's text without what differs from one to the next.
func reason(err error) string {
	text := err.Error()
	return text[:min(len(text), 120)]
}

// Beyond these the generator was the bottleneck, or close to it. Lateness must
// exceed both its bounds: where requests wait for long it does not matter.
const (
	saturatedShare     = 0.95
	saturatedLate      = time.Millisecond
	saturatedLateShare = 0.1 // of the 99th percentile of latency
)

// merge adds up the workers' tallies and judges the generator.
func merge(spec *Spec, workers []*worker) *Result {
	r := &Result{Refused: map[int]int64{}, Errors: map[string]int64{}}
	latency := hdrhistogram.New(1, int64(longestLatency), 3)
	lateness := hdrhistogram.New(1, int64(longestLatency), 3)
	for _, w := range workers {
		t := w.tally
		r.Requests += t.requests
		r.Window += t.window
		r.Unfinished += t.left
		r.Overtaken += t.overtaken
		if r.Timeline == nil {
			r.Timeline = make([]int64, len(t.timeline))
		}
		for i, n := range t.timeline {
			r.Timeline[i] += n
		}
		r.BytesIn += t.bytesIn
		r.BytesOut += t.bytesOut
		r.CPU += t.cpu
		r.Elapsed = max(r.Elapsed, time.Duration(t.last-t.begin))
		if d := t.end - t.begin; d > 0 {
			r.Share = max(r.Share, float64(t.cpu)/float64(d))
		}
		for status, n := range t.refused {
			r.Refused[status] += n
		}
		for text, n := range t.errors {
			r.Errors[text] += n
		}
		latency.Merge(t.latency)
		lateness.Merge(t.lateness)
	}
	if lateness.TotalCount() > 0 {
		r.Late = time.Duration(lateness.ValueAtQuantile(99))
	}
	r.Count = latency.TotalCount()
	if r.Count > 0 {
		for _, p := range Percentiles {
			v := latency.ValueAtQuantile(p)
			switch p {
			case 0:
				v = latency.Min()
			case 100:
				v = latency.Max()
			}
			r.Quantiles = append(r.Quantiles, [2]float64{p, float64(v)})
		}
	}
	p99 := time.Duration(latency.ValueAtQuantile(99))
	switch {
	case r.Share > saturatedShare:
		r.Saturated = fmt.Sprintf("its busiest thread took more than %.0f %% of a core", 100*saturatedShare)
	case r.Late > saturatedLate && float64(r.Late) > saturatedLateShare*float64(p99):
		r.Saturated = fmt.Sprintf("it was late by more than %v and %.0f %% of the latency, at the 99th percentile", saturatedLate, 100*saturatedLateShare)
	}
	return r
}
