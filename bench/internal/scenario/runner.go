package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// Progress is notified what is about to be measured and how long all that is left
// will take, roughly.
type Progress func(round int, scenario string, left time.Duration)

// spareFiles is how many files are open beside the connections of a load.
const spareFiles = 1000

// RunAll measures all scenarios with all targets: round by round, so that a
// change of the machine's mood meets all alike; scenario by scenario within a
// round; target by target within a scenario, in an order that rotates from
// round to round. A target that fails gets a note and is tried again in the
// next round; only a cancelled context and a record that cannot be written end all.
func RunAll(ctx context.Context, scenarios []Scenario, targets []*target.Target, options Options, recorder Recorder, progress Progress) error {
	record := newRecord(recorder)
	var profile *profiler
	if options.Profile != "" {
		if err := os.MkdirAll(options.Profile, 0o755); err != nil {
			return fmt.Errorf("making a directory for profiles: %w", err)
		}
		profile = &profiler{dir: options.Profile}
	}
	takesPart := map[string][]*target.Target{} // in a scenario
	var total, done time.Duration
	for i := range scenarios {
		s := &scenarios[i]
		for _, t := range targets {
			why := s.leftOut(t, options.Files)
			if why == "" {
				takesPart[s.Name] = append(takesPart[s.Name], t)
				total += time.Duration(s.rounds(options.Rounds)) * s.cost(options.Duration)
			} else if t.Name != target.Direct {
				record.note(sample.Note{Target: t.Name, Scenario: s.Name, Text: why})
			}
		}
	}
	begin := time.Now()
	for round := 1; round <= options.Rounds; round++ {
		for i := range scenarios {
			s := &scenarios[i]
			if round > s.rounds(options.Rounds) {
				continue
			}
			clear(record.latencies)
			targets := takesPart[s.Name]
			for n := range targets {
				t := targets[(n+round-1)%len(targets)]
				progress(round, s.Name, timeLeft(time.Since(begin), done, total))
				r := &Run{ctx: ctx, scenario: s, target: t, round: round, options: &options, record: record, profile: profile}
				err := s.run(r)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil && !errors.Is(err, errRefused) {
					r.note("failed in at least one round: %v", err)
				}
				if record.failed != nil {
					return record.failed
				}
				done += s.cost(options.Duration)
			}
			if s.Added {
				record.added(s, round, targets)
			}
		}
	}
	return record.failed
}

// timeLeft scales the estimate of what is to come by how good it was so far.
func timeLeft(passed, done, total time.Duration) time.Duration {
	left := total - done
	if done <= 0 {
		return left
	}
	return time.Duration(float64(left) * float64(passed) / float64(done))
}

// added records by how much each target's latencies exceed those of Direct in
// the same round. It is a difference of percentiles, not the percentile of
// differences.
func (r *record) added(s *Scenario, round int, targets []*target.Target) {
	base := r.latencies[target.Direct]
	if base == nil {
		if len(r.latencies) > 0 {
			r.note(sample.Note{Scenario: s.Name, Text: "no added latency in at least one round: it is a difference to " + target.Direct + ", which has no figures"})
		}
		return
	}
	for _, t := range targets {
		own := r.latencies[t.Name]
		if own == nil || t.Name == target.Direct {
			continue
		}
		for _, p := range []float64{50, 99} {
			r.keep(r.Figure(sample.Figure{
				Round: round, Scenario: s.Name, Target: t.Name, Figure: fmt.Sprintf("added_p%.0f", p),
				Value: (own.Quantile(p) - base.Quantile(p)) / 1e3, Unit: "us", Better: sample.Lower,
			}))
		}
	}
}
