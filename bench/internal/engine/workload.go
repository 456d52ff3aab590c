package engine

import (
	"math"
	"math/rand/v2"
	"time"
)

// Prompt lengths of a Workload have a log-normal distribution.
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

// ExpectedLengths forecasts the output length of r: the mean of all outputs of the
// Workload that are longer than what r has generated. The engine's state alone permits no
// better forecast.
func (c Config) ExpectedLengths(r *Request) int {
	longer := func(shift float64) float64 { return math.Erfc((shift-outputSigma)/math.Sqrt2) / 2 }
	mean := outputMedian * math.Exp(outputSigma*outputSigma/2)
	if r.generated > 1 {
		// The mean of the log-normal distribution above r.generated. bound is
		// ln(generated/median) in standard deviations.
		bound := math.Log(float64(r.generated)/outputMedian) / outputSigma
		mean *= longer(bound) / longer(bound+outputSigma)
	}
	return min(max(int(math.Ceil(mean)), r.generated)+1, c.MaxModelLen-r.Prompt)
}

// backlog processes number requests of a Workload on a virtual clock. Its queue is
// never empty. admits reports whether the next request may join the requests in the
// engine.
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
// complete per second: an oracle admits them (Model.Fits).
func (c Config) Capacity() (perSecond float64, err error) {
	m, _, took, err := c.backlog(2000, func(m *Model, r *Request) bool { return m.Fits(r, TrueLengths) })
	if err != nil {
		return 0, err
	}
	return float64(m.stats.Finished) / took.Seconds(), nil
}

// BestLimit returns the concurrency limit with the highest throughput of a Workload, to
// within a tenth.
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

// UnloadedFirstToken returns the quantile q, 0 to 1, of the time to the first token of
// requests that run alone.
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
