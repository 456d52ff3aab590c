package admission

import "math"

// The types in this file are algorithms of other projects, implemented from their
// descriptions. TestGoodputOfTheAutomaticLimitIsCloseToTheBestFixedLimit compares
// AutoLimit with them. All of them use windows of at least 100 ms and 10 samples.

// rivalWindow aggregates the samples of a window.
type rivalWindow struct {
	n, peak int
	sum     float64
	until   int64
}

// add adds a sample. The last result is true if this sample ends the window. The other
// results are then the mean latency and the maximum number of requests in flight during
// the window.
func (w *rivalWindow) add(now, took int64, inFlight int) (mean float64, peak int, over bool) {
	w.n++
	w.sum += float64(took)
	w.peak = max(w.peak, inFlight)
	if now < w.until || w.n < 10 {
		return 0, 0, false
	}
	mean, peak = w.sum/float64(w.n), w.peak
	*w = rivalWindow{until: now + int64(minWindow)}
	return mean, peak, true
}

// vegasLimit estimates the container's queue from the minimum latency, like TCP Vegas, as
// implemented in Netflix's concurrency-limits.
type vegasLimit struct {
	rivalWindow
	limit, least float64
	samples      float64
}

func (v *vegasLimit) Limit() int { return int(v.limit) }

func (v *vegasLimit) AddSample(now, took int64, _ bool, inFlight int) (int, bool) {
	if v.samples++; v.least == 0 || v.samples > 300*v.limit {
		v.samples, v.least = 0, float64(took)
	}
	v.least = min(v.least, float64(took))
	mean, peak, over := v.add(now, took, inFlight)
	if !over || float64(peak) < v.limit/2 {
		return 0, false
	}
	step := max(1, math.Log10(v.limit))
	switch queue := v.limit * (1 - v.least/mean); {
	case queue <= step:
		v.limit += 3 * step
	case queue < 3*step:
		v.limit += step
	case queue > 6*step:
		v.limit -= step
	}
	v.limit = max(1, v.limit)
	return int(v.limit), true
}

// gradient2Limit compares the latency with a slow moving average, like Netflix's Gradient2.
type gradient2Limit struct {
	rivalWindow
	limit, long float64
}

func (g *gradient2Limit) Limit() int { return int(g.limit) }

func (g *gradient2Limit) AddSample(now, took int64, _ bool, inFlight int) (int, bool) {
	mean, peak, over := g.add(now, took, inFlight)
	if !over {
		return 0, false
	}
	if g.long == 0 {
		g.long = mean
	}
	if g.long += (mean - g.long) * 2 / 601; g.long > 2*mean {
		g.long *= 0.95
	}
	if float64(peak) < g.limit/2 {
		return 0, false
	}
	gradient := max(0.5, min(1, 1.5*g.long/mean))
	g.limit = max(1, 0.8*g.limit+0.2*(g.limit*gradient+math.Sqrt(g.limit)))
	return int(g.limit), true
}

// aimdLimit increases the limit by one, and decreases it by a tenth when the mean latency
// is twice the minimum.
type aimdLimit struct {
	rivalWindow
	limit, least float64
}

func (a *aimdLimit) Limit() int { return int(a.limit) }

func (a *aimdLimit) AddSample(now, took int64, _ bool, inFlight int) (int, bool) {
	mean, peak, over := a.add(now, took, inFlight)
	if !over {
		return 0, false
	}
	if a.least == 0 || mean < a.least {
		a.least = mean
	}
	switch {
	case mean > 2*a.least:
		a.limit = max(1, 0.9*a.limit)
	case float64(peak) >= a.limit/2:
		a.limit++
	}
	return int(a.limit), true
}
