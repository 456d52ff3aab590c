package admission

import "math"

// limitCost sums up the cost of requests at one limit.
type limitCost struct {
	limit        int
	began        int64   // samples are counted from this time
	n, successes float64 // number of samples, number of successes
	sum, squares float64 // sum and sum of squares of the times in slots, in ns
	peak         int     // maximum number of requests in flight
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

// merge adds the samples of w to c; w is a later window of the same limit. The peak of
// w replaces the peak of c.
func (c *limitCost) merge(w *limitCost) {
	c.n, c.successes, c.sum, c.squares, c.peak = c.n+w.n, c.successes+w.successes, c.sum+w.sum, c.squares+w.squares, w.peak
}

// halve halves the weight of the samples.
func (c *limitCost) halve() {
	c.n, c.successes, c.sum, c.squares = c.n/2, c.successes/2, c.sum/2, c.squares/2
}

// latency is the mean time of a request, in ns.
func (c *limitCost) latency() float64 { return max(c.sum, 1) / max(c.n, 1) }

// costPerSuccess is the time in slots per successful request, in ns.
func (c *limitCost) costPerSuccess() float64 { return max(c.sum, 1) / max(c.successes, 0.5) }

// squaredVariation is the squared coefficient of variation of the time of a request.
func (c *limitCost) squaredVariation() float64 {
	m := c.latency()
	return max(0, c.squares/max(c.n, 1)-m*m) / (m * m)
}

// variance is the variance of the logarithm of costPerSuccess.
func (c *limitCost) variance() float64 {
	successRate := max(c.successes, 0.5) / c.n
	return c.squaredVariation()/c.n + max(0, 1-successRate)/(successRate*c.n)
}

// settleTime returns a duration in ns. For this long after a change of the limit,
// samples still show the effect of the previous limit, so they are ignored. It is twice
// the mean remaining time of the requests in flight.
func (c *limitCost) settleTime() float64 {
	if c.n == 0 {
		return 0
	}
	return c.latency() * (1 + c.squaredVariation())
}

// reached reports whether the number of requests in flight came close to the limit. If
// not, the samples say nothing about the limit.
func (c *limitCost) reached() bool { return float64(c.peak) >= 0.8*float64(c.limit) }

// excessCost compares the costs of a lower and a higher limit. If the first result is
// positive, the higher limit is above the limit of greatest power. That result is
//
//	ln(cost of high / cost of low) - ln(limit of high / limit of low) / 2
//
// The second result is its standard error. The number of requests in flight may never
// have reached the higher limit. The formula then uses the highest number reached instead
// of that limit, but at least the lower limit plus 1.
func excessCost(low, high *limitCost) (excess, sigma float64) {
	reached := max(min(high.limit, high.peak), low.limit+1)
	excess = math.Log(high.costPerSuccess()/low.costPerSuccess()) - 0.5*math.Log(float64(reached)/float64(low.limit))
	return excess, math.Sqrt(low.variance() + high.variance())
}
