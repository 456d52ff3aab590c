// Package scenario defines the measurements. Each scenario runs one target in front of
// a new origin, runs a load, and records figures.
//
// Figures of a target cover all processes of the target. CPU time and context switches
// are counted from before the first request to after the last request of the load. No
// request is in progress at either time, so the cost is exactly that of the counted
// requests.
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

// A Scenario is a kind of measurement of a target.
type Scenario struct {
	Name  string
	About string
	// Groups are other names by which the command line can select the scenario.
	Groups []string
	// Extended means that the scenario runs only if the command line names it, one of
	// its groups, or Everything.
	Extended bool
	// Needs are the abilities that a target must have.
	Needs []string
	// Added means that the latency is also recorded as the difference to that of
	// Direct.
	Added bool
	// Awake keeps all processors from going idle during the run, as package awake
	// explains.
	Awake bool
	// Connections is the number of connections if it is larger than in Load. It
	// determines the limit of open files.
	Connections int
	// Extra is the approximate time that a run takes in addition to Options.Duration.
	Extra time.Duration
	// Times is the duration of the load in Options.Duration. 0 = 1.
	Times float64
	// Rounds is the maximum number of rounds. It is for long runs whose figures vary
	// little. 0 = no maximum.
	Rounds int
	// Options configure the instance. Load is the load that is measured; a quick run
	// uses fewer connections.
	Options target.Options
	Load    load.Spec
	// Measure measures one target once on a new stand. nil = run Load and record its
	// cost.
	Measure func(*Run, *stand, load.Spec) error
	// Run replaces Measure if the scenario creates its own stands.
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
	return r.on(options, func(st *stand) error { return measure(r, st, spec) })
}

// All returns the scenarios in the order in which they run.
func All() []Scenario {
	all := slices.Concat(
		keepAlive(), openConnections(), []Scenario{limited, open, keptAwake(open)}, quotas(), bodies(),
		[]Scenario{chunks, keptAwake(chunks), webSockets, fresh}, h2c(), []Scenario{idle, idleConnections, starts, coldStart, fleet, overload},
		collapses(), fairness(), []Scenario{overloadCost}, engines(), queued(),
	)
	for i := range all {
		all[i].Connections = max(all[i].Connections, all[i].Load.Connections)
	}
	return all
}

// keptAwake returns the scenario with processors that do not go idle. It measures the
// latency that a proxy adds, without the time that idle processors need to wake up.
func keptAwake(s Scenario) Scenario {
	s.Name += "-awake"
	s.About += "; no core goes idle"
	s.Groups = append(slices.Clone(s.Groups), "awake")
	s.Awake, s.Extended = true, true
	s.Extra += 200 * time.Millisecond
	return s
}

// Everything is the name that selects all scenarios.
const Everything = "all"

// Select returns the scenarios that have one of the names, or are in a group of that
// name. Their order is that of All. If there are no names, it returns all scenarios
// that are not Extended.
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

// rounds returns in how many of all rounds the scenario runs.
func (s *Scenario) rounds(all int) int {
	return min(cmp.Or(s.Rounds, all), all)
}

// cost estimates the duration of a run.
func (s *Scenario) cost(d time.Duration) time.Duration {
	return time.Duration(cmp.Or(s.Times, 1)*float64(d)) + s.Extra + 300*time.Millisecond
}

// leftOut returns the reason for which a target is skipped. Empty = it is not skipped.
func (s *Scenario) leftOut(t *target.Target, files uint64) string {
	if missing, ok := t.Can(s.Needs...); !ok {
		return fmt.Sprintf("left out: it cannot do what the scenario needs (%s)", missing)
	}
	if uint64(s.Connections+spareFiles) > files {
		return fmt.Sprintf("left out: %d connections need more open files than the limit of %d", s.Connections, files)
	}
	return ""
}

// Progress is called before each measurement with an estimate of the remaining time.
type Progress func(round int, scenario string, left time.Duration)

// spareFiles is the number of open files that are needed in addition to the connections
// of a load.
const spareFiles = 1000

// RunAll measures all scenarios with all targets. It works round by round, so that
// drift of the machine affects all alike. A round runs all scenarios, and each scenario
// runs all targets, in an order that rotates from round to round. If a target fails,
// RunAll adds a note and measures it again in the next round. RunAll ends early only if
// ctx is cancelled or the record cannot be written.
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

// timeLeft estimates the remaining time. It multiplies the planned time of the rest by
// passed/done, the elapsed time divided by the planned time of the finished part.
func timeLeft(passed, done, total time.Duration) time.Duration {
	left := total - done
	if done <= 0 {
		return left
	}
	return time.Duration(float64(left) * float64(passed) / float64(done))
}

// added records for each target the difference between its latency percentiles and
// those of Direct in the same round. It is a difference of percentiles and not a
// percentile of differences.
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
