package report

import (
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// picture is an SVG with its caption.
type picture struct {
	Caption string
	SVG     template.HTML
	Text    string // the same with letters; empty if there is none
}

// colours is how many series the page knows; class s0 is direct's, s1 the
// gate's own.
const colours = 8

// palette gives each target of a run its series, the same in each picture.
type palette map[string]int

func paletteOf(run *sample.Run) palette {
	p := palette{}
	next := 2
	for _, t := range run.Targets("") {
		switch t {
		case "direct":
			p[t] = 0
		case gate:
			p[t] = 1
		default:
			p[t] = 2 + (next-2)%(colours-2)
			next++
		}
	}
	return p
}

// pictures draws what a scenario measured: the latencies, and bars for CPU,
// memory, throughput, and how long a start takes.
func (p palette) pictures(run *sample.Run, t table) []picture {
	var all []picture
	if svg := p.latency(run, t.scenario); svg != "" {
		all = append(all, picture{Caption: "Latency by percentile", SVG: svg})
	}
	for _, c := range p.bars(t) {
		all = append(all, picture{Caption: c.caption, SVG: c.draw()})
	}
	return all
}

// bars returns the charts of a scenario that compare targets.
func (p palette) bars(t table) (all []barChart) {
	for i, c := range t.Columns {
		if !drawn(c) {
			continue
		}
		b := barChart{figure: c.figure, caption: c.label, title: t.scenario + ": " + c.String(), unit: c.unitName()}
		for _, r := range t.Rows {
			if s := r.Cells[i].spread; s.N > 0 {
				b.bars = append(b.bars, bar{r.Target, p[r.Target], s})
			}
		}
		if len(b.bars) > 1 {
			all = append(all, b)
		}
	}
	return all
}

// drawn says whether a figure has bars of its own.
func drawn(c column) bool {
	return !c.isLatency() && (c.isMemory() || strings.HasPrefix(c.figure, "cpu_") ||
		strings.HasPrefix(c.figure, "exec_") || strings.HasPrefix(c.figure, "listening_") || strings.HasPrefix(c.figure, "readiness_") ||
		strings.Contains(c.figure, "throughput") || strings.Contains(c.figure, "goodput") || c.figure == "requests_per_second")
}

// latency draws percentiles against latency, both on logarithmic axes: a
// percentile stands at the logarithm of the share of requests above it. The
// largest latency is left to the table: it is one request, and would flatten
// all the rest.
func (p palette) latency(run *sample.Run, scenario string) template.HTML {
	percentiles := slices.DeleteFunc(run.Percentiles(scenario), func(q float64) bool { return !inPicture(q) })
	if len(percentiles) < 2 {
		return ""
	}
	recorded, _ := run.Unit(scenario, sample.PercentileName(percentiles[0]))
	u := unitOf(recorded)
	chart := lineChart{
		title: "Latency by percentile, " + scenario, vertical: "latency", across: "percentile",
		value: func(v float64) string { return compactUnit(v, u) },
	}
	at := func(q float64) float64 { return -math.Log10(1 - q/100) }
	for _, q := range percentiles {
		if slices.Contains(sample.Customary, q) || q == percentiles[len(percentiles)-1] {
			chart.xTicks = append(chart.xTicks, tick{at(q), sample.PercentileName(q)})
		}
	}
	for _, target := range run.Targets(scenario) {
		l := chartLine{name: target, series: p[target]}
		for _, q := range percentiles {
			name := sample.PercentileName(q)
			if v, _ := run.Median(scenario, target, name); v > 0 {
				l.points = append(l.points, chartPoint{at(q), v, name + " " + withUnit(v, u)})
			}
		}
		if len(l.points) > 0 {
			chart.lines = append(chart.lines, l)
		}
	}
	return chart.draw()
}

// inPicture says whether a percentile is drawn: the slower half of the
// requests, but for the slowest.
func inPicture(percentile float64) bool { return percentile >= 50 && percentile < 100 }

// growth draws a curve on logarithmic axes.
func (p palette) growth(c curve) picture {
	chart := lineChart{
		title: c.family.Stem + ": growth of " + c.String(), vertical: "", across: "size", xLog: true,
		value: func(v float64) string { return compactUnit(v, c.unit) },
	}
	var sizes []float64
	for _, l := range c.lines {
		line := chartLine{name: l.target, series: p[l.target]}
		for i, s := range l.sizes {
			line.points = append(line.points, chartPoint{s, l.values[i], c.size(s) + " " + withUnit(l.values[i], c.unit)})
			if !slices.Contains(sizes, s) {
				sizes = append(sizes, s)
			}
		}
		chart.lines = append(chart.lines, line)
	}
	slices.Sort(sizes)
	for _, s := range sizes {
		words := c.size(s)
		if !c.family.Bytes {
			words = shortNumber(s)
		}
		chart.xTicks = append(chart.xTicks, tick{s, words})
	}
	return picture{Caption: c.family.Stem + ": " + c.label, SVG: chart.draw()}
}

// compactUnit writes a tick: a round number, without digits that say nothing.
func compactUnit(v float64, u unit) string {
	s := u.scaled(v * (1 + 1e-9))
	f, _ := u.to(s)
	return strings.TrimSpace(tickNumber(v*f) + " " + s.name)
}
