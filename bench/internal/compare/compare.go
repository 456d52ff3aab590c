// Package compare finds differences between two runs that exceed the noise.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchmath"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// Options define what counts as a change.
type Options struct {
	// Threshold is the tolerated relative change of a median: 0.05 means five percent.
	Threshold float64
	// Alpha is the p-value below which a change is significant. It is small, because
	// one comparison judges hundreds of figures.
	Alpha float64
}

// Defaults of Options.
const (
	DefaultThreshold = 0.05
	DefaultAlpha     = 0.01
)

// Verdict is the result of comparing one figure.
type Verdict string

// Same also stands for a significant change that does not exceed the
// threshold.
const (
	Same      Verdict = "same"
	Noise     Verdict = "noise"   // the difference may be chance
	TooFew    Verdict = "too few" // too few samples for any significant result
	Improved  Verdict = "improved"
	Regressed Verdict = "regressed"
	Changed   Verdict = "changed"    // significant, but neither direction is better
	OnlyOld   Verdict = "only old"   // not measured in the new run
	OnlyNew   Verdict = "only new"   // not measured in the old run
	Units     Verdict = "other unit" // the units of the two runs differ
)

// Change is the comparison of one figure.
type Change struct {
	Scenario, Target, Figure string
	Unit                     string
	Better                   sample.Better
	Old, New                 sample.Spread
	// Delta is (new - old) / |old| of the medians. It is infinite if only old is zero,
	// and NaN if a median is missing.
	Delta   float64
	P       float64
	Verdict Verdict
}

// Result is a comparison of two runs.
type Result struct {
	Options Options
	// Differences lists the differences in machine, versions and options.
	Differences []string
	Changes     []Change
}

// Regressed reports whether a figure became significantly worse, by more than the
// threshold.
func (r Result) Regressed() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Verdict == Regressed })
}

// Undecided reports whether a figure changed by more than the threshold, but has too few
// rounds to judge the change. It ignores figures for which neither higher nor lower is
// better (sample.Neither).
func (r Result) Undecided() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.undecided(r.Options) })
}

func (c Change) undecided(o Options) bool {
	return c.Verdict == TooFew && c.Better != sample.Neither && math.Abs(c.Delta) > o.Threshold
}

// Compare compares the figures of two runs, including the latency percentiles in
// sample.Customary. The largest latency comes from a single request, so a change of it is
// neither an improvement nor a regression. A figure that was measured once for the whole
// run, such as the size of a binary, has no noise. Its change is significant if it
// exceeds the threshold.
func Compare(old, new *sample.Run, o Options) Result {
	r := Result{Options: o, Differences: differences(old.Meta, new.Meta)}
	for _, p := range pairs(old, new) {
		a, b := &p.runs[0], &p.runs[1]
		chance := 0.0
		if !a.exact() || !b.exact() {
			chance = MannWhitney(a.values, b.values)
		}
		c := judge(a.values, b.values, p.better, chance, o)
		c.Scenario, c.Target, c.Figure, c.Unit = p.scenario, p.target, p.figure, cmp.Or(a.unit, b.unit)
		if len(a.values) > 0 && len(b.values) > 0 && a.unit != b.unit {
			c.Unit, c.Delta, c.Verdict = a.unit+", "+b.unit, math.NaN(), Units
		}
		r.Changes = append(r.Changes, c)
	}
	return r
}

// judge compares the old and the new values of one figure. The parameter p is the p-value
// of their difference: the probability that noise alone causes a difference as large.
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
	if c.Delta = (c.New.Median - c.Old.Median) / math.Abs(c.Old.Median); c.New.Median == c.Old.Median {
		c.Delta = 0 // if both medians are 0, the division gave NaN
	}
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

type key struct{ scenario, target, figure string }

// A pair holds the values of one figure: runs[0] from the old run, runs[1] from the new.
type pair struct {
	key
	better sample.Better
	runs   [2]series
}

type series struct {
	unit   string
	values []float64
	rounds bool // the figure was measured in each round, not once for the whole run
}

// exact reports whether the figure was measured once for the whole run.
func (s *series) exact() bool { return !s.rounds && len(s.values) <= 1 }

// pairs returns one pair for each figure of the old or the new run. It groups the pairs
// by scenario. In each group, the figures of the old run precede the figures that only
// the new run contains.
func pairs(runs ...*sample.Run) []*pair {
	var all []*pair
	byKey, scenarios := map[key]*pair{}, map[string]int{}
	for i, run := range runs {
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
			if byKey[k] == nil {
				byKey[k] = &pair{key: k}
				all = append(all, byKey[k])
			}
			if _, ok := scenarios[f.Scenario]; !ok {
				scenarios[f.Scenario] = len(scenarios)
			}
			p := byKey[k]
			p.better = f.Better
			s := &p.runs[i]
			s.unit, s.values, s.rounds = f.Unit, append(s.values, f.Value), s.rounds || f.Round > 0
		}
	}
	slices.SortStableFunc(all, func(a, b *pair) int { return scenarios[a.scenario] - scenarios[b.scenario] })
	return all
}

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test. It is 1 if a
// sample is empty or all values are equal.
func MannWhitney(a, b []float64) float64 {
	thresholds := benchmath.DefaultThresholds
	// NewSample sorts its argument in place, so give it a copy.
	sampleOf := func(values []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(values), &thresholds)
	}
	return benchmath.AssumeNothing.Compare(sampleOf(a), sampleOf(b)).P
}

// LeastP returns the smallest p-value that MannWhitney can return for a sample with n
// values and a sample with m values. The p-value is smallest if all values of one sample
// are larger than all values of the other.
func LeastP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= min(n, m); i++ {
		ways *= float64(n+m-min(n, m)+i) / float64(i)
	}
	return min(1, 2/ways)
}

// LeastRounds returns the smallest number of rounds in each run with which a difference
// can be significant.
func LeastRounds(alpha float64) int {
	n := 1
	for LeastP(n, n) >= alpha {
		n++
	}
	return n
}

// text formats the result. Unless all is set, the table omits figures that stayed the
// same or changed within the noise.
func (r Result) text(all bool) string {
	var b strings.Builder
	for _, line := range r.Differences {
		fmt.Fprintf(&b, "%s\n", line)
	}
	if len(r.Differences) > 0 {
		b.WriteByte('\n')
	}
	counts := map[Verdict]int{}
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	shown := 0
	for _, c := range r.Changes {
		counts[c.Verdict]++
		if !all && (c.Verdict == Same || c.Verdict == Noise || c.Verdict == TooFew && !c.undecided(r.Options)) {
			continue
		}
		if shown == 0 {
			fmt.Fprintln(tab, "scenario\ttarget\tfigure\tunit\told\tnew\tdelta\tp\tverdict")
		}
		shown++
		delta, p := c.texts()
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Scenario, c.Target, c.Figure,
			c.Unit, spreadText(c.Old), spreadText(c.New), delta, p, c.Verdict)
	}
	tab.Flush()
	if shown > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d figures: %d regressed, %d improved, %d changed; %d same, %d within noise, %d with too few rounds to tell, %d not comparable\n",
		len(r.Changes), counts[Regressed], counts[Improved], counts[Changed], counts[Same], counts[Noise], counts[TooFew],
		counts[OnlyOld]+counts[OnlyNew]+counts[Units])
	fmt.Fprintf(&b, "beyond the noise: p < %g; beyond the threshold: medians %g %% apart; old and new are medians with half the interquartile range\n",
		r.Options.Alpha, r.Options.Threshold*100)
	if r.Undecided() {
		fmt.Fprintf(&b, "undecided: figures above with the verdict \"too few\" changed by more than the threshold, but with so few rounds no difference reaches p < %g;"+
			" measure both runs with at least %d rounds (--rounds %[2]d), or raise --alpha\n", r.Options.Alpha, LeastRounds(r.Options.Alpha))
	}
	return b.String()
}

func spreadText(s sample.Spread) string {
	switch {
	case s.N == 0:
		return "-"
	case s.N == 1 || s.Median == 0:
		return number(s.Median)
	}
	return fmt.Sprintf("%s ±%.1f%%", number(s.Median), 50*(s.Q3-s.Q1)/math.Abs(s.Median))
}

// number formats v with four significant digits, or with all digits before the decimal
// point if there are more than four.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// texts formats the change and its p-value. A missing value is "".
func (c Change) texts() (delta, p string) {
	p = fmt.Sprintf("%.3f", c.P)
	switch {
	case math.IsNaN(c.Delta):
		return "", ""
	case math.IsInf(c.Delta, 0):
		return "from 0", p
	}
	return fmt.Sprintf("%+.1f%%", c.Delta*100), p
}

// differences returns one line for each difference between the conditions of two runs.
func differences(old, new sample.Meta) []string {
	const none = "(none)"
	var lines []string
	say := func(label, a, b string) {
		if a != b {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", label, cmp.Or(a, none), cmp.Or(b, none)))
		}
	}
	a, b := old.Machine, new.Machine
	say("cpu", a.CPU, b.CPU)
	say("cores", fmt.Sprint(a.Cores), fmt.Sprint(b.Cores))
	say("memory in bytes", fmt.Sprint(a.MemoryBytes), fmt.Sprint(b.MemoryBytes))
	say("kernel", a.Kernel, b.Kernel)
	say("os", a.OS, b.OS)
	say("commit", old.Commit, new.Commit)
	sayAll := func(label string, a, b map[string]string) {
		names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			say(label+" "+name, a[name], b[name])
		}
	}
	sayAll("version of", old.Versions, new.Versions)
	sayAll("option", old.Options, new.Options)
	return lines
}
