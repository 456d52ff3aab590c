// Package scenario defines the measurements. Each scenario runs a target in front of a
// new origin, runs a load, and records figures.
//
// Figures of a target cover all its processes. CPU time and context switches are counted
// from before the first request until after the last response.
package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// A Scenario is a measurement of a target.
type Scenario struct {
	Name  string
	About string
	// Groups are other names that select the scenario.
	Groups []string
	// Extended excludes the scenario from the default selection: it runs only if its
	// name, one of its groups, or Everything is selected.
	Extended bool
	// Needs are the abilities that the target must have.
	Needs []string
	// Added makes the harness also record the added latency, which is the difference from
	// the latency of Direct.
	Added bool
	// Awake keeps all processors from going idle; see package awake.
	Awake bool
	// Connections is the maximum number of open connections. Set it only if it is larger
	// than Load.Connections. If the limit of open files does not allow so many
	// connections, the scenario is skipped.
	Connections int
	// Extra is the approximate duration of a run in addition to Options.Duration.
	Extra time.Duration
	// Times is the duration of the load as a multiple of Options.Duration. 0 = 1.
	Times float64
	// Rounds is the maximum number of rounds, for long runs whose figures vary little. 0
	// = no maximum.
	Rounds int
	// Options configure the instance. Load is the measured load; a quick run uses fewer
	// connections.
	Options target.Options
	Load    load.Spec
	// Measure measures the target once on a new stand. nil = run Load and record its
	// cost.
	Measure func(*Run, *stand, load.Spec) error
	// Run replaces Measure in scenarios that create their own stands.
	Run func(*Run) error
}

func (s *Scenario) run(r *Run) error {
	if s.Run != nil {
		return s.Run(r)
	}
	options, spec, measure := s.Options, s.Load, s.Measure
	if r.options.Quick {
		spec.Connections = min(spec.Connections, 200)
	}
	if options.QueueCapacity > 0 {
		options.QueueCapacity -= s.Load.Connections - spec.Connections
	}
	if measure == nil {
		measure = (*Run).plain
	}
	return r.withStand(options, func(st *stand) error { return measure(r, st, spec) })
}

// All returns the scenarios in the order in which they run.
func All() []Scenario {
	all := slices.Concat(
		keepAlive(), openConnections(), []Scenario{limited, open, withAwake(open)}, quotas(), bodies(),
		[]Scenario{chunks, withAwake(chunks), webSockets, newConnection}, h2c(), []Scenario{idle, idleConnections, starts, coldStart, fleet, overload},
		collapses(), fairness(), []Scenario{overloadCost}, engines(), queued(),
	)
	for i := range all {
		all[i].Connections = max(all[i].Connections, all[i].Load.Connections)
	}
	return all
}

// withAwake returns the scenario with Awake set.
func withAwake(s Scenario) Scenario {
	s.Name += "-awake"
	s.About += "; no core goes idle"
	s.Groups = append(slices.Clone(s.Groups), "awake")
	s.Awake, s.Extended = true, true
	s.Extra += 200 * time.Millisecond
	return s
}

// Everything is the name that selects all scenarios.
const Everything = "all"

// Select returns the scenarios with these names or groups, in the order of All. Without
// names it returns all scenarios that are not Extended.
func Select(names []string) ([]Scenario, error) {
	all := All()
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s Scenario) bool { return s.called(name) }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no scenario or group is named %s", strings.Join(unknown, ", "))
	}
	return slices.DeleteFunc(all, func(s Scenario) bool {
		if len(names) == 0 {
			return s.Extended
		}
		return !slices.ContainsFunc(names, s.called)
	}), nil
}

func (s *Scenario) called(name string) bool {
	return name == Everything || name == s.Name || slices.Contains(s.Groups, name)
}

// rounds returns the number of rounds of the scenario. It is never larger than the number
// of rounds of the whole run, which is the argument all.
func (s *Scenario) rounds(all int) int {
	return min(cmp.Or(s.Rounds, all), all)
}

// cost estimates the duration of a run.
func (s *Scenario) cost(d time.Duration) time.Duration {
	return time.Duration(cmp.Or(s.Times, 1)*float64(d)) + s.Extra + 300*time.Millisecond
}

// skipReason returns the reason to skip a target; "" = do not skip it.
func (s *Scenario) skipReason(t *target.Target, files uint64) string {
	if missing, ok := t.Can(s.Needs...); !ok {
		return fmt.Sprintf("left out: it cannot do what the scenario needs (%s)", missing)
	}
	if uint64(s.Connections+extraFiles) > files {
		return fmt.Sprintf("left out: %d connections need more open files than the limit of %d", s.Connections, files)
	}
	return ""
}

// Progress is called before each measurement with an estimate of the remaining time.
type Progress func(round int, scenario string, remaining time.Duration)

// extraFiles is the number of open files in addition to a load's connections.
const extraFiles = 1000

// RunAll measures all scenarios with all targets in each round, so that slow changes of
// the machine affect all targets alike. The order of the targets rotates from round to
// round. If a target fails, RunAll adds a note and continues. It returns an error only if
// ctx is cancelled, or if the record or the directory for profiles cannot be written.
func RunAll(ctx context.Context, scenarios []Scenario, targets []*target.Target, options Options, recorder Recorder, progress Progress) error {
	record := newRecord(recorder)
	var profile *profiler
	if options.Profile != "" {
		if err := os.MkdirAll(options.Profile, 0o755); err != nil {
			return fmt.Errorf("making a directory for profiles: %w", err)
		}
		profile = &profiler{dir: options.Profile}
	}
	takesPart := map[string][]*target.Target{} // by scenario
	var total, done time.Duration
	for i := range scenarios {
		s := &scenarios[i]
		for _, t := range targets {
			reason := s.skipReason(t, options.Files)
			if reason == "" {
				takesPart[s.Name] = append(takesPart[s.Name], t)
				total += time.Duration(s.rounds(options.Rounds)) * s.cost(options.Duration)
			} else if t.Name != target.Direct {
				record.note(sample.Note{Target: t.Name, Scenario: s.Name, Text: reason})
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
				progress(round, s.Name, remainingTime(time.Since(begin), done, total))
				r := &Run{ctx: ctx, scenario: s, target: t, round: round, options: &options, record: record, profile: profile}
				err := s.run(r)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil && !errors.Is(err, errUntrusted) {
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

// remainingTime estimates the remaining time. The argument total is the planned duration of
// all measurements. The argument done is the planned duration of the completed ones, and
// elapsed is the time that they have really taken. If they have taken longer than planned,
// the estimate assumes that the others take longer by the same factor.
func remainingTime(elapsed, done, total time.Duration) time.Duration {
	remaining := total - done
	if done <= 0 {
		return remaining
	}
	return time.Duration(float64(remaining) * float64(elapsed) / float64(done))
}

// added records the differences between the latency percentiles of each target and those
// of Direct in the same round.
func (r *record) added(s *Scenario, round int, targets []*target.Target) {
	base := r.latencies[target.Direct]
	if base == nil {
		if len(r.latencies) > 0 {
			r.note(sample.Note{Scenario: s.Name, Text: "no added latency in at least one round: it is the difference from " + target.Direct + ", which has no figures"})
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
