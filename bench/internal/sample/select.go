package sample

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Values returns the values of a figure in the order of the record, one for
// each round.
func (run *Run) Values(scenario, target, figure string) []float64 {
	var values []float64
	for _, f := range run.Figures {
		if f.Scenario == scenario && f.Target == target && f.Figure == figure {
			values = append(values, f.Value)
		}
	}
	return values
}

// Median returns the median of a figure over the rounds, and false if it was
// not measured.
func (run *Run) Median(scenario, target, figure string) (float64, bool) {
	values := run.Values(scenario, target, figure)
	return Median(values), len(values) > 0
}

// Spread returns the spread of a figure over the rounds; N is zero if it was
// not measured.
func (run *Run) Spread(scenario, target, figure string) Spread {
	return SpreadOf(run.Values(scenario, target, figure))
}

// quantiles are those of all rounds.
func (run *Run) quantiles(scenario, target string) iter.Seq[Quantile] {
	return func(yield func(Quantile) bool) {
		for _, l := range run.Latencies {
			for _, q := range l.Quantiles {
				if l.Scenario == scenario && l.Target == target && !yield(q) {
					return
				}
			}
		}
	}
}

// Quantiles returns, for each percentile measured, the median of its value over
// the rounds, ascending. It does not pool the rounds: a single bad round moves
// none of the points far.
func (run *Run) Quantiles(scenario, target string) []Quantile {
	values := map[float64][]float64{}
	for q := range run.quantiles(scenario, target) {
		values[q.Percentile()] = append(values[q.Percentile()], q.Value())
	}
	out := make([]Quantile, 0, len(values))
	for _, p := range slices.Sorted(maps.Keys(values)) {
		out = append(out, Quantile{p, Median(values[p])})
	}
	return out
}

// AtPercentile returns the values that the rounds measured at a percentile.
func (run *Run) AtPercentile(scenario, target string, percentile float64) []float64 {
	var values []float64
	for q := range run.quantiles(scenario, target) {
		if q.Percentile() == percentile {
			values = append(values, q.Value())
		}
	}
	return values
}

// measured is a scenario and a target for each figure, then for each latency.
func (run *Run) measured() iter.Seq2[string, string] {
	return func(yield func(scenario, target string) bool) {
		for _, f := range run.Figures {
			if !yield(f.Scenario, f.Target) {
				return
			}
		}
		for _, l := range run.Latencies {
			if !yield(l.Scenario, l.Target) {
				return
			}
		}
	}
}

// Scenarios returns the scenarios that were measured, in the order in which
// they first appear.
func (run *Run) Scenarios() []string {
	var names []string
	for scenario := range run.measured() {
		names = appendNew(names, scenario)
	}
	return names
}

// Targets returns the targets of a scenario, of the whole run if scenario is
// empty: "direct" first, then "queuegate", then the rest by name, so that every
// table and picture has one order whatever the rounds' order was.
func (run *Run) Targets(scenario string) []string {
	var names []string
	for of, target := range run.measured() {
		if scenario == "" || of == scenario {
			names = appendNew(names, target)
		}
	}
	slices.SortFunc(names, compareTargets)
	return names
}

// FigureNames returns the figures of a scenario, in the order in which those of
// the target with most of them first appear, then the others: so that scenarios
// of one kind have one order, whichever target lacks some.
func (run *Run) FigureNames(scenario string) []string {
	var all []string
	byTarget := map[string][]string{}
	for _, f := range run.Figures {
		if f.Scenario == scenario {
			all = appendNew(all, f.Figure)
			byTarget[f.Target] = appendNew(byTarget[f.Target], f.Figure)
		}
	}
	var names []string
	for _, target := range run.Targets(scenario) {
		if own := byTarget[target]; len(own) > len(names) {
			names = own
		}
	}
	names = slices.Clone(names)
	for _, name := range all {
		names = appendNew(names, name)
	}
	return names
}

// Rounds returns the highest round number.
func (run *Run) Rounds() int {
	rounds := 0
	for _, f := range run.Figures {
		rounds = max(rounds, f.Round)
	}
	for _, l := range run.Latencies {
		rounds = max(rounds, l.Round)
	}
	return rounds
}

// Unit returns the unit of a figure and the way it improves, as the first
// sample of it says.
func (run *Run) Unit(scenario, figure string) (unit string, better Better) {
	for _, f := range run.Figures {
		if f.Scenario == scenario && f.Figure == figure {
			return f.Unit, f.Better
		}
	}
	return "", Neither
}

func appendNew(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

func compareTargets(a, b string) int {
	// direct -1, queuegate 0, all others 1
	rank := func(name string) int { return -slices.Index([]string{"queuegate", "direct"}, name) }
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// LatencyUnit returns the unit of a scenario's latencies, as the first says.
func (run *Run) LatencyUnit(scenario string) string {
	for _, l := range run.Latencies {
		if l.Scenario == scenario {
			return l.Unit
		}
	}
	return ""
}
