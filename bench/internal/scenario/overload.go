package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	overLimit   = 8
	overQueue   = 10 * overLimit
	overDelay   = 10 * time.Millisecond // of the container, for each request
	overConns   = 400
	overFactor  = 2
	overPerSecd = float64(overLimit) / 0.010 // what the container can do
)

// overload sends twice what the container can do.
func overload() []Scenario {
	return []Scenario{{
		Name: "overload",
		About: fmt.Sprintf("open loop at %d times the capacity of %.0f/s (limit %d, %v each, %d may wait): goodput, fairness, rejects",
			overFactor, overPerSecd, overLimit, overDelay, overQueue),
		Groups:      []string{"queue"},
		Needs:       []string{target.Limit, target.HTTP},
		Connections: overConns,
		Extra:       time.Second,
		Run: func(r *Run) error {
			return r.on(target.Options{Limit: overLimit, QueueCapacity: overQueue}, func(st *stand) error { return runOverload(r, st) })
		},
	}}
}

func runOverload(r *Run, st *stand) error {
	// Refusals are what this is about, so failures are no fault.
	m, err := r.observe(st, load.Spec{
		Kind: load.HTTP, Path: "/?delay=" + overDelay.String(), Connections: overConns,
		Rate: overFactor * overPerSecd, Overtaking: overDelay,
	})
	if err != nil {
		return err
	}
	if r.saturated(m, true) {
		return nil
	}
	if m.Requests == 0 {
		return errors.New("not one request was answered: " + failures(m.Result))
	}
	r.goodput(m, overPerSecd)
	r.figure("refused_share", m.failedShare(), "", sample.Neither)
	r.figure("overtaken_share", float64(m.Overtaken)/float64(m.Requests), "", sample.Lower)
	r.figure("cpu_per_request", m.microseconds(), "us", sample.Lower)
	if m.Failures() > 0 {
		r.note("refused with: %s", failures(m.Result))
	} else {
		r.note("nothing was refused: all that exceeded the capacity waited, so latency grows with the length of the run")
	}
	r.latency(m.Result)
	return nil
}

// goodput records what was answered in time, and of what share of the capacity.
func (r *Run) goodput(m *measured, capacity float64) {
	rate := float64(m.Window) / r.options.Duration.Seconds()
	r.figure("goodput", rate, "/s", sample.Higher)
	r.figure("goodput_of_capacity", rate/capacity, "", sample.Higher)
}
