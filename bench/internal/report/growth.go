package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// leastSizes is the minimum number of sizes of a growth curve.
const leastSizes = 3

const growthLegend = "The exponent says how a figure grows with the size in the scenario's name (0: constant, 1: proportional). It is that of the best-fitting power law through the medians of all sizes, and of the last two sizes."

// curve shows how a figure grows with the size in the names of scenarios, such as 64 in
// "keepalive-64". There is one line per target.
type curve struct {
	column
	family sample.Family
	lines  []growthLine
}

// growthLine has the medians of one target, one median per size. It omits medians of
// zero, because they have no logarithm.
type growthLine struct {
	target   string
	sizes    []float64
	values   []float64 // in the unit of the curve
	exponent float64   // exponent of the growth over all sizes
	last     float64   // exponent of the growth between the last two sizes
}

type exponentRow struct{ Variable, Label, Target, Exponent, Last, Range string }

func growths(run *sample.Run) (rows []exponentRow) {
	for _, c := range curves(run) {
		for _, l := range c.lines {
			rows = append(rows, exponentRow{c.family.Stem, c.label, l.target, exponentText(l.exponent), exponentText(l.last), c.rangeText(l)})
		}
	}
	return rows
}

// curves returns the growth curves of costs: time, memory, CPU, and the latency
// percentiles 50 and 99.
func curves(run *sample.Run) []curve {
	var all []curve
	for _, f := range run.Families(leastSizes) {
		var done []string
		for _, scenario := range f.Scenarios {
			for _, c := range tableOf(run, scenario).Columns {
				if slices.Contains(done, c.figure) || !growing(c) {
					continue
				}
				done = append(done, c.figure)
				if made := curveOf(run, f, c); len(made.lines) > 0 {
					all = append(all, made)
				}
			}
		}
	}
	return all
}

func growing(c column) bool {
	if c.isLatency() {
		return c.figure == "p50" || c.figure == "p99"
	}
	return c.better == sample.Lower && (c.unit.base == times || c.unit.base == amounts || strings.HasPrefix(c.figure, "cpu_"))
}

func curveOf(run *sample.Run, f sample.Family, c column) curve {
	out := curve{column: c, family: f}
	var targets []string
	for _, s := range f.Scenarios {
		for _, t := range run.Targets(s) {
			targets = appendNew(targets, t)
		}
	}
	for _, target := range targets {
		l := growthLine{target: target}
		for i, s := range f.Scenarios {
			if m := sample.Median(c.inUnit(run, s, target)); finite(m) && m > 0 {
				l.sizes, l.values = append(l.sizes, f.Sizes[i]), append(l.values, m)
			}
		}
		n := len(l.values)
		if n < 2 {
			continue
		}
		l.exponent, l.last = exponent(l.sizes, l.values), exponent(l.sizes[n-2:], l.values[n-2:])
		out.lines = append(out.lines, l)
	}
	return out
}

// exponent returns the slope of the least-squares line through the logarithms of sizes
// and values.
func exponent(sizes, values []float64) float64 {
	n := float64(len(sizes))
	var mx, my float64
	for i := range sizes {
		mx += math.Log(sizes[i]) / n
		my += math.Log(values[i]) / n
	}
	var xy, xx float64
	for i := range sizes {
		dx := math.Log(sizes[i]) - mx
		xy += dx * (math.Log(values[i]) - my)
		xx += dx * dx
	}
	if xx == 0 {
		return math.NaN()
	}
	return xy / xx
}

// size formats a size in powers of ten, as in the names of scenarios.
func (c curve) size(v float64) string {
	if !c.family.Bytes {
		return tickNumber(v)
	}
	for _, s := range []struct {
		name   string
		factor float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if v >= s.factor {
			return tickNumber(v/s.factor) + " " + s.name
		}
	}
	return tickNumber(v) + " B"
}

func (c curve) rangeText(l growthLine) string {
	last := len(l.sizes) - 1
	return withUnit(l.values[0], c.unit) + " at " + c.size(l.sizes[0]) + " → " +
		withUnit(l.values[last], c.unit) + " at " + c.size(l.sizes[last])
}

func exponentText(e float64) string {
	switch {
	case !finite(e):
		return "–"
	case math.Abs(e) < 0.005:
		return "0.00"
	}
	return strings.Replace(strconv.FormatFloat(e, 'f', 2, 64), "-", "−", 1)
}
