package admission

import "math"

// limitCost sums up what requests cost while a limit was in force.
type limitCost struct {
	limit        int
	since        int64   // of the first sample
	n, successes float64 // samples, successes among them
	sum, squares float64 // of the time in slots, ns
	peak         int     // most in flight
}

func (c *limitCost) add(took int64, failed bool, inFlight int) {
	c.n++
	if !failed {
		c.successes++
	}
	t := float64(took)
	c.sum += t
	c.squares += t * t
	c.peak = max(c.peak, inFlight)
}

// merge adds what a later window of the same limit has shown, of which the peak
// counts.
func (c *limitCost) merge(w *limitCost) {
	c.n, c.successes, c.sum, c.squares, c.peak = c.n+w.n, c.successes+w.successes, c.sum+w.sum, c.squares+w.squares, w.peak
}

// halve halves the weight of what is known.
func (c *limitCost) halve() {
	c.n, c.successes, c.sum, c.squares = c.n/2, c.successes/2, c.sum/2, c.squares/2
}

// latency is the mean time of a request, in ns.
func (c *limitCost) latency() float64 { return max(c.sum, 1) / max(c.n, 1) }

// costPerSuccess is the time in slots for each success, in ns.
func (c *limitCost) costPerSuccess() float64 { return max(c.sum, 1) / max(c.successes, 0.5) }

// squaredVariation is the squared coefficient of variation of a single request's time.
func (c *limitCost) squaredVariation() float64 {
	m := c.latency()
	return max(0, c.squares/max(c.n, 1)-m*m) / (m * m)
}

// variance is that of the logarithm of costPerSuccess: how well it is known.
func (c *limitCost) variance() float64 {
	good := max(c.successes, 0.5) / c.n
	return c.squaredVariation()/c.n + max(0, 1-good)/(good*c.n)
}

// settleTime is how long samples say little of a new limit, in ns: twice the mean
// time that those in flight have still before them.
func (c *limitCost) settleTime() float64 {
	if c.n == 0 {
		return 0
	}
	return c.latency() * (1 + c.squaredVariation())
}

// reached reports whether the limit was all but reached: what was seen says
// something about it.
func (c *limitCost) reached() bool { return float64(c.peak) >= 0.8*float64(c.limit) }

// excessCost tells by how much the cost of high exceeds that of low more than the
// limits do, by logarithm, and the standard error of that. Above 0, the higher
// limit is beyond the one of the greatest power. A limit that was not reached
// counts as what was in flight.
func excessCost(low, high *limitCost) (by, sigma float64) {
	reached := max(min(high.limit, high.peak), low.limit+1)
	by = math.Log(high.costPerSuccess()/low.costPerSuccess()) - 0.5*math.Log(float64(reached)/float64(low.limit))
	return by, math.Sqrt(low.variance() + high.variance())
}
