package sample

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// PercentileName returns the figure name of percentile p, such as "p99.9", or "max" for
// 100.
func PercentileName(p float64) string {
	if p == 100 {
		return "max"
	}
	return "p" + strconv.FormatFloat(p, 'f', -1, 64)
}

// PercentileOf returns the percentile that a figure name denotes. ok is false for other
// figures.
func PercentileOf(figure string) (p float64, ok bool) {
	digits, ok := strings.CutPrefix(figure, "p")
	if figure == "max" {
		digits, ok = "100", true
	}
	if !ok {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p, err == nil
}

// Values returns the values of a figure in the order of the record.
func (run *Run) Values(scenario, target, figure string) []float64 {
	var values []float64
	for _, f := range run.Figures {
		if f.Scenario == scenario && f.Target == target && f.Figure == figure {
			values = append(values, f.Value)
		}
	}
	return values
}

// Median returns the median of a figure over the rounds, or false if the figure was not
// measured.
func (run *Run) Median(scenario, target, figure string) (float64, bool) {
	values := run.Values(scenario, target, figure)
	return Median(values), len(values) > 0
}

// Percentiles returns the measured percentiles of a scenario, ascending.
func (run *Run) Percentiles(scenario string) []float64 {
	var all []float64
	for _, f := range run.Figures {
		if f.Scenario != scenario {
			continue
		}
		if p, ok := PercentileOf(f.Figure); ok && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// Scenarios returns the measured scenarios, in the order of the record.
func (run *Run) Scenarios() []string {
	var names []string
	for _, f := range run.Figures {
		names = appendNew(names, f.Scenario)
	}
	return names
}

// Targets returns the targets of a scenario, or of the whole run if scenario is "":
// "direct" first, then "queuegate", then all others by name.
func (run *Run) Targets(scenario string) []string {
	var names []string
	for _, f := range run.Figures {
		if scenario == "" || f.Scenario == scenario {
			names = appendNew(names, f.Target)
		}
	}
	slices.SortFunc(names, compareTargets)
	return names
}

// FigureNames returns the names of the figures of a scenario, except percentiles. The
// names begin with the figures of the target that has the most figures, in the order of
// that target. The other names follow. So the order does not depend on a target that
// lacks some figures.
func (run *Run) FigureNames(scenario string) (names []string) {
	byTarget := map[string][]string{}
	for _, f := range run.Figures {
		if _, percentile := PercentileOf(f.Figure); f.Scenario == scenario && !percentile {
			byTarget[f.Target] = appendNew(byTarget[f.Target], f.Figure)
		}
	}
	targets := run.Targets(scenario)
	slices.SortStableFunc(targets, func(a, b string) int { return len(byTarget[b]) - len(byTarget[a]) })
	for _, t := range targets {
		for _, name := range byTarget[t] {
			names = appendNew(names, name)
		}
	}
	return names
}

// Rounds returns the highest round number.
func (run *Run) Rounds() int {
	rounds := 0
	for _, f := range run.Figures {
		rounds = max(rounds, f.Round)
	}
	return rounds
}

// Unit returns the unit and the better direction of a figure, from the first sample of
// the figure.
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
	// The rank is -1 for direct, 0 for queuegate, and 1 for all others.
	rank := func(name string) int { return -slices.Index([]string{"queuegate", "direct"}, name) }
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// FileName is the name of the record in a run's directory.
const FileName = "samples.jsonl"

// sized matches names such as "keepalive-64", "download-1KB" and "upload-100MiB".
var sized = regexp.MustCompile(`^(.+)-(\d+)(k|K|M|B|KB|MB|GB|KiB|MiB|GiB)?$`)

var sizeFactor = map[string]float64{
	"": 1, "B": 1,
	"k": 1e3, "K": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6, "GB": 1e9,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}

// Size splits the name of a scenario: "keepalive-64" has the stem "keepalive" and the
// size 64. Scenarios with the same stem do the same work at different sizes (connections,
// bytes, slots). The third result reports whether the size is a number of bytes, as in
// "download-1KB". The last result is false if the name has no size, or if the size is 0.
func Size(scenario string) (stem string, size float64, bytes, ok bool) {
	m := sized.FindStringSubmatch(scenario)
	if m == nil {
		return scenario, 0, false, false
	}
	n, err := strconv.ParseFloat(m[2], 64)
	if err != nil || n == 0 {
		return scenario, 0, false, false
	}
	unit := m[3]
	return m[1], n * sizeFactor[unit], unit != "" && unit[len(unit)-1] == 'B', true
}

// Family is a group of scenarios whose names have the same stem (see Size).
type Family struct {
	Stem      string
	Bytes     bool
	Sizes     []float64 // ascending
	Scenarios []string  // one scenario per size
}

// Families returns the families, in the order of the record. It omits families with fewer
// sizes than the parameter least.
func (run *Run) Families(least int) []Family {
	var families []Family
	for _, name := range run.Scenarios() {
		stem, size, bytes, ok := Size(name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(families, func(f Family) bool { return f.Stem == stem })
		if i < 0 {
			i = len(families)
			families = append(families, Family{Stem: stem, Bytes: bytes})
		}
		f := &families[i]
		at, _ := slices.BinarySearch(f.Sizes, math.Nextafter(size, math.Inf(1))) // insert after equal sizes
		f.Sizes, f.Scenarios = slices.Insert(f.Sizes, at, size), slices.Insert(f.Scenarios, at, name)
	}
	return slices.DeleteFunc(families, func(f Family) bool { return len(f.Scenarios) < least })
}

// Spread describes a small set of values. Quartiles are interpolated linearly (Hyndman
// and Fan 1996, type 7).
type Spread struct {
	N                        int
	Min, Q1, Median, Q3, Max float64
}

// SpreadOf returns the spread of values. Without values N is zero and the other fields
// are NaN.
func SpreadOf(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		nan := math.NaN()
		return Spread{Min: nan, Q1: nan, Median: nan, Q3: nan, Max: nan}
	}
	return Spread{
		N:      len(s),
		Min:    s[0],
		Q1:     sortedQuantile(s, 0.25),
		Median: sortedQuantile(s, 0.5),
		Q3:     sortedQuantile(s, 0.75),
		Max:    s[len(s)-1],
	}
}

// Median returns the median of values, or NaN without values.
func Median(values []float64) float64 { return SpreadOf(values).Median }

func sortedQuantile(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}
