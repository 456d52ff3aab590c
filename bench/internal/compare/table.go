package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// text is the differences in circumstances, a table of the changes and a line
// that sums up. Figures that stayed the same or drowned in noise are shown only
// if all is set.
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
		if !all && (c.Verdict == Same || c.Verdict == Noise || c.Verdict == TooFew) {
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

// number writes four significant digits, and every digit before the point.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// texts are those of the change and its p-value; empty if there is none.
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

// differences tells, a line each, in what the circumstances of two runs differ.
func differences(old, new sample.Meta) []string {
	const none = "(none)"
	var lines []string
	say := func(what, a, b string) {
		if a != b {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", what, cmp.Or(a, none), cmp.Or(b, none)))
		}
	}
	a, b := old.Machine, new.Machine
	say("cpu", a.CPU, b.CPU)
	say("cores", fmt.Sprint(a.Cores), fmt.Sprint(b.Cores))
	say("memory in bytes", fmt.Sprint(a.MemoryBytes), fmt.Sprint(b.MemoryBytes))
	say("kernel", a.Kernel, b.Kernel)
	say("os", a.OS, b.OS)
	say("commit", old.Commit, new.Commit)
	sayAll := func(what string, a, b map[string]string) {
		names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			say(what+" "+name, a[name], b[name])
		}
	}
	sayAll("version of", old.Versions, new.Versions)
	sayAll("option", old.Options, new.Options)
	return lines
}
