// Package compare says what changed between two runs beyond the noise.
package compare

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Options say what counts as a change. The zero value means the defaults.
type Options struct {
	// Threshold is the relative change of a median that is tolerated, as a
	// share: 0.05 (the default) is five percent.
	Threshold float64
	// Alpha is the p-value below which a change is taken to be more than
	// noise; 0.01 by default, since a comparison judges hundreds of figures.
	Alpha float64
}

// Defaults of Options.
const (
	DefaultThreshold = 0.05
	DefaultAlpha     = 0.01
)

func (o Options) withDefaults() Options {
	if o.Threshold == 0 {
		o.Threshold = DefaultThreshold
	}
	if o.Alpha == 0 {
		o.Alpha = DefaultAlpha
	}
	return o
}

// Verdict is what is said of one figure.
type Verdict string

// Verdicts. A change that is beyond the noise but within the threshold is
// Same.
const (
	Same      Verdict = "same"
	Noise     Verdict = "noise"   // the difference may be chance
	TooFew    Verdict = "too few" // not even samples without overlap could tell
	Improved  Verdict = "improved"
	Regressed Verdict = "regressed"
	Changed   Verdict = "changed"    // of a figure that has no better side
	OnlyOld   Verdict = "only old"   // not measured in the new run
	OnlyNew   Verdict = "only new"   // not measured in the old run
	Units     Verdict = "other unit" // measured in another unit: not comparable
)

// Change is the comparison of one figure.
type Change struct {
	Scenario, Target, Figure string
	Unit                     string
	Better                   sample.Better
	Old, New                 sample.Spread
	// Delta is (new - old) / old of the medians; infinite if only old is zero,
	// NaN if one is missing.
	Delta   float64
	P       float64
	Verdict Verdict
}

// Result is a comparison of two runs.
type Result struct {
	Options Options
	// Differences tell what else was not the same: machine, versions, options.
	Differences []string
	Changes     []Change
}

// Regressed says whether any figure became worse, beyond the noise and by more
// than the threshold.
func (r Result) Regressed() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Verdict == Regressed })
}

// Compare compares each figure and each customary latency percentile of two
// runs. The
// largest latency is shown and never judged: it is one request. A figure that
// belongs to no round is taken to be exact: only the threshold counts.
func Compare(old, new *sample.Run, o Options) Result {
	o = o.withDefaults()
	r := Result{Options: o, Differences: differences(old.Meta, new.Meta)}
	olds, news := collect(old), collect(new)
	for _, k := range merge(olds.keys, news.keys) {
		a, b := olds.by[k], news.by[k]
		if a == nil {
			a = &series{unit: b.unit, better: b.better}
		}
		if b == nil {
			b = &series{unit: a.unit, better: a.better}
		}
		p := 0.0
		if !a.exact() || !b.exact() {
			p = MannWhitney(a.values, b.values)
		}
		c := judge(a.values, b.values, b.better, p, o)
		c.Scenario, c.Target, c.Figure = k.scenario, k.target, k.figure
		c.Unit = a.unit
		if a.unit != b.unit {
			c.Unit, c.Delta, c.Verdict = a.unit+", "+b.unit, math.NaN(), Units
		}
		r.Changes = append(r.Changes, c)
	}
	return r
}

// judge compares the values of one figure, which it does not name. p is the
// chance that they differ by noise alone.
func judge(old, new []float64, better sample.Better, p float64, o Options) Change {
	c := Change{
		Old: sample.SpreadOf(old), New: sample.SpreadOf(new),
		Better: better, Delta: math.NaN(), P: p,
	}
	switch {
	case c.New.N == 0:
		c.Verdict = OnlyOld
		return c
	case c.Old.N == 0:
		c.Verdict = OnlyNew
		return c
	}
	c.Delta = relative(c.Old.Median, c.New.Median)
	switch {
	case c.Delta == 0:
		c.Verdict = Same
	case c.P >= o.Alpha && LeastP(c.Old.N, c.New.N) >= o.Alpha:
		c.Verdict = TooFew
	case c.P >= o.Alpha:
		c.Verdict = Noise
	case math.Abs(c.Delta) <= o.Threshold:
		c.Verdict = Same
	case better == sample.Neither:
		c.Verdict = Changed
	case (c.New.Median > c.Old.Median) == (better == sample.Higher):
		c.Verdict = Improved
	default:
		c.Verdict = Regressed
	}
	return c
}

func relative(old, new float64) float64 {
	switch {
	case old == new:
		return 0
	case old == 0:
		return math.Copysign(math.Inf(1), new)
	}
	return (new - old) / math.Abs(old)
}

type key struct{ scenario, target, figure string }

type series struct {
	unit   string
	better sample.Better
	values []float64
	rounds bool // some value belongs to a round
}

// exact says whether the figure is one number for the whole run.
func (s *series) exact() bool { return !s.rounds && len(s.values) == 1 }

type collection struct {
	keys []key // in the order of first appearance
	by   map[key]*series
}

func collect(run *sample.Run) *collection {
	c := &collection{by: map[key]*series{}}
	for _, f := range run.Figures {
		if p, ok := sample.PercentileOf(f.Figure); ok {
			if !slices.Contains(sample.Customary, p) {
				continue
			}
			f.Figure = "latency_" + f.Figure
			if p == 100 {
				f.Better = sample.Neither
			}
		}
		k := key{f.Scenario, f.Target, f.Figure}
		s := c.by[k]
		if s == nil {
			s = &series{unit: f.Unit, better: f.Better}
			c.by[k], c.keys = s, append(c.keys, k)
		}
		s.values = append(s.values, f.Value)
		s.rounds = s.rounds || f.Round > 0
	}
	return c
}

// merge returns the keys of a, then those that only b has, by scenario in order
// of appearance.
func merge(a, b []key) []key {
	seen := map[key]bool{}
	first := map[string]int{}
	var keys []key
	for _, k := range slices.Concat(a, b) {
		if seen[k] {
			continue
		}
		seen[k] = true
		if _, ok := first[k.scenario]; !ok {
			first[k.scenario] = len(first)
		}
		keys = append(keys, k)
	}
	slices.SortStableFunc(keys, func(a, b key) int { return first[a.scenario] - first[b.scenario] })
	return keys
}

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test: the
// chance of ranks at least as uneven as those of a and b if both were drawn
// from one population. An empty sample, and samples that are nothing but one
// tie, give 1.
func MannWhitney(a, b []float64) float64 {
	thresholds := benchmath.DefaultThresholds
	sampleOf := func(values []float64) *benchmath.Sample { // it sorts in place
		return benchmath.NewSample(slices.Clone(values), &thresholds)
	}
	return benchmath.AssumeNothing.Compare(sampleOf(a), sampleOf(b)).P
}

// LeastP is the smallest p-value that samples of these sizes can give, reached
// when they do not overlap at all. It says how many rounds a claim needs.
func LeastP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= min(n, m); i++ {
		ways *= float64(n+m-min(n, m)+i) / float64(i)
	}
	return min(1, 2/ways)
}
