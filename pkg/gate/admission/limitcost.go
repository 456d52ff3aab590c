package admission

import "math"

// limitCost sums up what requests cost while a limit was in force.
type limitCost struct {
	limit        int
	since        int64   // of the first sample
	n, good      float64 // samples, successes among them
	sum, squares float64 // of the time in slots, ns
	peak         int     // most in flight
}

func (c *limitCost) add(took int64, failed bool, inFlight int) {
	c.n++
	if !failed {
		c.good++
	}
	t := float64(took)
	c.sum += t
	c.squares += t * t
	c.peak = max(c.peak, inFlight)
}

// merge adds what a later window of the same limit has shown, of which the peak
// counts.
func (c *limitCost) merge(w *limitCost) {
	c.n, c.good, c.sum, c.squares, c.peak = c.n+w.n, c.good+w.good, c.sum+w.sum, c.squares+w.squares, w.peak
}

// fade halves the weight of what is known.
func (c *limitCost) fade() {
	c.n, c.good, c.sum, c.squares = c.n/2, c.good/2, c.sum/2, c.squares/2
}

// latency is the mean time of a request, in ns.
func (c *limitCost) latency() float64 { return max(c.sum, 1) / max(c.n, 1) }

// perSuccess is the time in slots for each success, in ns.
func (c *limitCost) perSuccess() float64 { return max(c.sum, 1) / max(c.good, 0.5) }

// spread is the squared coefficient of variation of a single request's time.
func (c *limitCost) spread() float64 {
	m := c.latency()
	return max(0, c.squares/max(c.n, 1)-m*m) / (m * m)
}

// variance is that of the logarithm of perSuccess: how well it is known.
func (c *limitCost) variance() float64 {
	good := max(c.good, 0.5) / c.n
	return c.spread()/c.n + max(0, 1-good)/(good*c.n)
}

// transition is how long samples say little of a new limit, in ns: twice the mean
// time that those in flight have still before them.
func (c *limitCost) transition() float64 {
	if c.n == 0 {
		return 0
	}
	return c.latency() * (1 + c.spread())
}

// used reports whether the limit was all but reached: what was seen says
// something about it.
func (c *limitCost) used() bool { return float64(c.peak) >= 0.8*float64(c.limit) }

// beyond tells by how much the cost of high exceeds that of low more than the
// limits do, by logarithm, and the standard error of that. Above 0, the higher
// limit is beyond the one of the greatest power. A limit that was not reached
// counts as what was in flight.
func beyond(low, high *limitCost) (by, sigma float64) {
	reached := max(min(high.limit, high.peak), low.limit+1)
	by = math.Log(high.perSuccess()/low.perSuccess()) - 0.5*math.Log(float64(reached)/float64(low.limit))
	return by, math.Sqrt(low.variance() + high.variance())
}
