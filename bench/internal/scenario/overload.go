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
			st, err := r.start(target.Options{Limit: overLimit, QueueCapacity: overQueue})
			if err != nil {
				return err
			}
			defer st.stop()
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
			seconds := r.options.Duration.Seconds()
			answered := float64(m.Requests + m.Failures())
			r.figure("goodput", float64(m.Window)/seconds, "/s", sample.Higher)
			r.figure("goodput_of_capacity", float64(m.Window)/seconds/overPerSecd, "", sample.Higher)
			r.figure("refused_share", float64(m.Failures())/answered, "", sample.Neither)
			r.figure("overtaken_share", float64(m.Overtaken)/float64(m.Requests), "", sample.Lower)
			r.figure("cpu_per_request", m.perRequest(float64(m.cpu.Nanoseconds()))/1e3, "us", sample.Lower)
			if len(m.Refused) > 0 || len(m.Errors) > 0 || m.Unfinished > 0 {
				r.note("refused with: %s", failures(m.Result))
			} else {
				r.note("nothing was refused: all that exceeded the capacity waited, so latency grows with the length of the run")
			}
			r.latency(m.Result)
			return nil
		},
	}}
}
