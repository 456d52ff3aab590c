// Package scenario is what the harness measures: each scenario runs one target
// in front of a fresh origin, puts a load on it, and records figures.
//
// Figures of a target cover its whole tree of processes; CPU and switches are
// those between the first and the last request of the load, with nothing under
// way at either end, so they belong to exactly the requests that were counted.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/target"
)

// A Scenario is one way to look at a target.
type Scenario struct {
	Name  string
	About string
	// Groups gather scenarios under more names on the command line.
	Groups []string
	// Extended scenarios run only when they, a group of theirs, or Everything
	// is named.
	Extended bool
	// Needs are the abilities that a target must have.
	Needs []string
	// Added says that latencies are to be compared with those of Direct.
	Added bool
	// Awake says that no processor goes idle meanwhile, see package awake.
	Awake bool
	// Connections is how many the load opens, for the limit of open files.
	Connections int
	// Extra is how long a run takes beside Options.Duration, roughly.
	Extra time.Duration
	// Times is how often a run takes Options.Duration; 0 is once.
	Times float64
	// Rounds is the most rounds that it takes part in, for runs that take long
	// and hardly vary; 0 is all of them.
	Rounds int
	// Run measures one target once.
	Run func(*Run) error
}

// All returns the scenarios in the order in which they run.
func All() []Scenario {
	return slices.Concat(
		keepAlive(), openConnections(), limited(), keptAwake(open()), quotas(), bodies(), keptAwake(chunks()), webSockets(), fresh(),
		h2c(), idle(), starts(), coldStart(), fleet(), overload(), collapses(), turns(), overloadCost(), queued(),
	)
}

// keptAwake adds each scenario once more with processors that do not go idle:
// what a proxy adds to latency beside the time that idle ones take to wake up.
func keptAwake(list []Scenario) []Scenario {
	var all []Scenario
	for _, s := range list {
		again := s
		again.Name += "-awake"
		again.About += "; no core goes idle"
		again.Groups = append(slices.Clone(s.Groups), "awake")
		again.Awake, again.Extended = true, true
		again.Extra += 200 * time.Millisecond
		all = append(all, s, again)
	}
	return all
}

// Everything is the name that stands for all scenarios.
const Everything = "all"

// Select returns the scenarios that have one of the names, or are of a group of
// that name, in the order of All; without names, those that are not Extended.
func Select(names []string) ([]Scenario, error) {
	all := All()
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s Scenario) bool { return s.called(name) }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no scenario and no group is called %s", strings.Join(unknown, ", "))
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

// rounds is in how many of all rounds it runs.
func (s *Scenario) rounds(all int) int {
	if s.Rounds > 0 {
		return min(s.Rounds, all)
	}
	return all
}

// cost is how long a run takes, roughly.
func (s *Scenario) cost(d time.Duration) time.Duration {
	times := s.Times
	if times == 0 {
		times = 1
	}
	return time.Duration(times*float64(d)) + s.Extra + 300*time.Millisecond
}

// wants says why a target takes no part, if so.
func (s *Scenario) wants(t *target.Target) (why string, ok bool) {
	if missing, ok := t.Can(s.Needs...); !ok {
		return fmt.Sprintf("left out: it cannot do what the scenario needs (%s)", missing), false
	}
	return "", true
}
