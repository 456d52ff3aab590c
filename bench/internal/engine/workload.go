package engine

import (
	"math"
	"math/rand/v2"
	"time"
)

// Median and sigma of the log-normal distribution of prompt lengths, and the maximum
// length. Lengths are in tokens.
const (
	promptMedian = 150
	promptSigma  = 1.0
	promptMost   = 1500
)

// drawPrompt returns a random prompt length in tokens.
func drawPrompt(draw *rand.Rand) int {
	return min(max(int(promptMedian*math.Exp(promptSigma*draw.NormFloat64())), 4), promptMost)
}

// drawOutput returns a random output length in tokens.
func drawOutput(draw *rand.Rand) int {
	return 1 + int(outputMedian*math.Exp(outputSigma*draw.NormFloat64()))
}

// ExpectedLengths forecasts the output length of r. It considers only outputs of a
// Workload that are longer than the output of r so far. The forecast is the mean length
// of these outputs. The state of the engine contains no other information about the
// length, so no better forecast is possible.
func (c Config) ExpectedLengths(r *Request) int {
	longer := func(shift float64) float64 { return math.Erfc((shift-outputSigma)/math.Sqrt2) / 2 }
	mean := outputMedian * math.Exp(outputSigma*outputSigma/2)
	if r.generated > 1 {
		// Compute the mean of only those values of the log-normal distribution that are
		// above r.generated. The variable bound is ln(generated/median), divided by the
		// standard deviation.
		bound := math.Log(float64(r.generated)/outputMedian) / outputSigma
		mean *= longer(bound) / longer(bound+outputSigma)
	}
	return min(max(int(math.Ceil(mean)), r.generated)+1, c.MaxModelLen-r.Prompt)
}

// backlog runs an engine on a virtual clock until it has completed the given number of
// requests. The requests have the random lengths of a Workload. The next request always
// waits outside the engine. It is added as soon as the given function returns true for
// it. The third result is the virtual time.
func (c Config) backlog(number int, admits func(*Model, *Request) bool) (m *Model, all []*Request, took time.Duration, err error) {
	if m, err = NewModel(c); err != nil {
		return nil, nil, 0, err
	}
	draw := rand.New(rand.NewPCG(1, 2))
	next := func() *Request {
		prompt := drawPrompt(draw)
		return &Request{Prompt: prompt, Output: min(drawOutput(draw), c.MaxModelLen-prompt)}
	}
	for r := next(); m.stats.Finished < int64(number); {
		for admits(m, r) {
			if err := m.Add(r, took); err != nil {
				return nil, nil, 0, err
			}
			all = append(all, r)
			r = next()
		}
		step, busy := m.Begin(took)
		if !busy {
			panic("BUG: an idle engine admits nothing")
		}
		took += step
		m.End(took)
	}
	return m, all, took, nil
}

// Capacity returns the maximum number of requests of a Workload that the engine can
// complete per second. To reach the maximum, an oracle that knows the output lengths
// admits as many requests as fit without a preemption (Model.Fits).
func (c Config) Capacity() (perSecond float64, err error) {
	m, _, took, err := c.backlog(2000, func(m *Model, r *Request) bool { return m.Fits(r, TrueLengths) })
	if err != nil {
		return 0, err
	}
	return float64(m.stats.Finished) / took.Seconds(), nil
}

// BestLimit returns the concurrency limit with which the engine completes the most
// requests of a Workload per second. It tries limits that are about a tenth apart, so
// the best limit may differ from the result by a tenth.
func (c Config) BestLimit() (best int, err error) {
	most := 0.0
	for limit := 1; limit <= c.MaxSequences; limit += 1 + limit/10 {
		m, _, took, err := c.backlog(1000, func(m *Model, _ *Request) bool { return m.InFlight() < limit })
		if err != nil {
			return 0, err
		}
		if rate := float64(m.stats.Finished) / took.Seconds(); rate > most {
			best, most = limit, rate
		}
	}
	return best, nil
}

// UnloadedFirstToken runs requests of a Workload one at a time, and returns a quantile
// of their times to the first token. The parameter q is between 0 and 1.
func (c Config) UnloadedFirstToken(q float64) (time.Duration, error) {
	_, all, _, err := c.backlog(2000, func(m *Model, _ *Request) bool { return m.InFlight() == 0 })
	if err != nil {
		return 0, err
	}
	times := make([]time.Duration, 0, len(all))
	for _, r := range all {
		if r.First > 0 {
			times = append(times, r.First-r.Arrived)
		}
	}
	return Quantile(times, q), nil
}
