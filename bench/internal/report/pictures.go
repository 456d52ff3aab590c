package report

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

type picture struct {
	Caption string
	SVG     template.HTML
	Text    string // the picture as text, or ""
}

// colours is the number of colors for series. Series 0 is always direct, and series 1 is
// queuegate. The other targets use the remaining colors in turn.
const colours = 8

// palette maps the targets of a run to series, which determine the color. A target has
// the same series in all pictures.
type palette map[string]int

func paletteOf(run *sample.Run) palette {
	p := palette{"direct": 0, gate: 1}
	for _, t := range run.Targets("") {
		if _, ok := p[t]; !ok {
			p[t] = 2 + (len(p)-2)%(colours-2)
		}
	}
	return p
}

// pictures returns the latency curve and the bar charts of a scenario.
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

// bars returns the bar charts of a scenario.
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

func drawn(c column) bool {
	return !c.isLatency() && (c.isMemory() || strings.HasPrefix(c.figure, "cpu_") ||
		strings.HasPrefix(c.figure, "exec_") || strings.HasPrefix(c.figure, "listening_") || strings.HasPrefix(c.figure, "readiness_") ||
		strings.Contains(c.figure, "throughput") || strings.Contains(c.figure, "goodput") || c.figure == "requests_per_second")
}

// latency draws the latency at each percentile, with logarithmic axes. The position of a
// percentile is the logarithm of the share of slower requests. So the distance from p90
// to p99 is equal to the distance from p99 to p99.9.
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

// inPicture excludes the faster half of the requests. It also excludes the largest
// latency, a single request, which would compress the rest of the curve.
func inPicture(percentile float64) bool { return percentile >= 50 && percentile < 100 }

// growth draws a growth curve with logarithmic axes.
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
		label := c.size(s)
		if !c.family.Bytes {
			label = shortNumber(s)
		}
		chart.xTicks = append(chart.xTicks, tick{s, label})
	}
	return picture{Caption: c.family.Stem + ": " + c.label, SVG: chart.draw()}
}

// compactUnit formats a round number with its unit, without trailing zeros.
func compactUnit(v float64, u unit) string {
	s := u.scaled(v * (1 + 1e-9))
	f, _ := u.factorTo(s)
	return strings.TrimSpace(tickNumber(v*f) + " " + s.name)
}

// plot is a file with a picture of docs/overload.md or docs/models.md: several charts
// side by side, with the same scale.
type plot struct {
	file, title string
	log         bool
	charts      []barChart
}

// WritePlots writes the pictures of docs/overload.md and docs/models.md, and returns the
// file names. It omits a picture if the run has no figures for the picture. It returns an
// error if the run has no figures for any picture.
func WritePlots(dir string, run *sample.Run) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("writing the plots: %w", err)
	}
	var names []string
	for _, p := range plotsOf(run) {
		name := filepath.Join(dir, p.file)
		if err := os.WriteFile(name, []byte(p.svg(run)), 0o644); err != nil {
			return nil, fmt.Errorf("writing the plots: %w", err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("writing the plots: the run measured none of the scenarios collapse-3, collapse-10, tenant, class, engine-1, engine-3 and engine-10")
	}
	return names, nil
}

func plotsOf(run *sample.Run) []plot {
	all := []plot{
		{file: "overload-goodput.svg", title: "Goodput with the best fixed limit, with auto, with none (higher is better)"},
		{file: "overload-p99.svg", title: "p99 of admitted requests, and without load (lower is better; logarithmic)", log: true},
		{file: "overload-fairness.svg", title: "p99 of one client, alone and beside a flood (lower is better)"},
		{file: "engine-goodput.svg", title: "Requests per second whose first token is in time (higher is better)"},
		{file: "engine-first-token.svg", title: "p99 of the time to the first token, in multiples of an idle engine's (lower is better; logarithmic)", log: true},
	}
	colours := paletteOf(run)
	for _, times := range []int{3, 10} {
		goodput := barChart{unit: fmt.Sprintf("requests per second, at %d × the capacity", times)}
		p99 := barChart{unit: fmt.Sprintf("ms, at %d × the capacity", times)}
		for _, limit := range []string{"best", "auto", "none"} {
			scenario := fmt.Sprintf("collapse-%d-%s", times, limit)
			for _, target := range run.Targets(scenario) {
				name, colour := target+", "+limit, colours[target]
				goodput.add(name, colour, run.Values(scenario, target, "goodput"))
				loaded, unloaded := admitted(run, scenario, target)
				p99.add(name, colour, loaded)
				p99.add("unloaded", 0, unloaded)
			}
		}
		all[0].charts, all[1].charts = append(all[0].charts, goodput), append(all[1].charts, p99)
	}
	all[2].charts = contentionCharts(run)
	all[3].charts = engineCharts(run, "goodput", "requests per second")
	all[4].charts = engineCharts(run, "first_token_p99_beside_unloaded", "times")
	for i := range all {
		all[i].charts = slices.DeleteFunc(all[i].charts, func(c barChart) bool { return len(c.bars) == 0 })
	}
	return slices.DeleteFunc(all, func(p plot) bool { return len(p.charts) == 0 })
}

// admitted returns the p99 of the latency in each round in ms, under load and without
// load. The record has the p99 under load, and the ratio of this p99 to the p99 without
// load. So admitted divides the first by the ratio to get the p99 without load.
func admitted(run *sample.Run, scenario, target string) (loaded, unloaded []float64) {
	ratios := map[int]float64{} // ratio by round
	for _, f := range run.Figures {
		if f.Scenario == scenario && f.Target == target && f.Figure == "p99_beside_unloaded" {
			ratios[f.Round] = f.Value
		}
	}
	for _, f := range run.Figures {
		if f.Scenario != scenario || f.Target != target || f.Figure != "p99" {
			continue
		}
		factor, _ := unitOf(f.Unit).factorTo(unitOf("ms"))
		loaded = append(loaded, f.Value*factor)
		if r := ratios[f.Round]; r > 0 {
			unloaded = append(unloaded, f.Value*factor/r)
		}
	}
	return loaded, unloaded
}

// contentionCharts returns charts of a client's latency while another client floods the
// target.
func contentionCharts(run *sample.Run) (charts []barChart) {
	for _, c := range []struct {
		client string
		rows   [][2]string
	}{
		{"a tenant at a tenth of its share", [][2]string{{"tenant-fair", "fair queue"}, {"tenant-fifo", "strict FIFO"}}},
		{"the highest class at half the capacity", [][2]string{{"class-first", "class 0"}}},
	} {
		chart := barChart{unit: "ms, " + c.client}
		for _, row := range c.rows {
			for series, condition := range []string{"alone", "flood"} {
				chart.add(row[1]+", "+condition, series, valuesIn(unitOf("ms"), run, row[0], gate, "p99_"+condition))
			}
		}
		charts = append(charts, chart)
	}
	return charts
}

// engineCharts returns charts of a figure of the engine scenarios, one for each load.
func engineCharts(run *sample.Run, figure, unit string) (charts []barChart) {
	for _, times := range []int{1, 3, 10} {
		chart := barChart{unit: fmt.Sprintf("%s, at %d × the capacity", unit, times)}
		for _, front := range []struct {
			name, label string
			series      int
		}{
			{"preset", "PRESET=vllm", 1}, {"best", "best fixed limit", 2}, {"central", "central scheduler", 3},
			{"none", "no limit", 4}, {"oracle_of_state", "oracle", 0},
		} {
			chart.add(front.label, front.series, run.Values(fmt.Sprintf("engine-%d", times), gate, figure+"_"+front.name))
		}
		charts = append(charts, chart)
	}
	return charts
}

func (b *barChart) add(name string, series int, values []float64) {
	if len(values) > 0 {
		b.bars = append(b.bars, bar{name, series, sample.SpreadOf(values)})
	}
}

// svg returns the file. The picture has its own background, because the background of the
// page may not match the color scheme that the reader prefers.
func (p plot) svg(run *sample.Run) string {
	const margin, head, foot, shownWidth = 16.0, 44.0, 26.0, 360
	columns := max(2, len(p.charts))
	shown := float64(columns * shownWidth)
	low, high := math.Inf(1), 0.0
	for _, c := range p.charts {
		for _, b := range c.bars {
			low, high = min(low, b.spread.Min), max(high, b.spread.Max)
		}
	}
	out := &canvas{width: float64(columns)*(canvasWidth+margin) + margin}
	out.text("title", "start", margin, 26, p.title)
	for i, c := range p.charts {
		c.high = high
		if p.log && low > 0 {
			c.low = math.Pow(10, math.Floor(math.Log10(low)))
		}
		drawn := c.canvas()
		out.height = max(out.height, head+drawn.height+foot)
		fmt.Fprintf(&out.b, `<g transform="translate(%s %s)">%s</g>`,
			coordinate(margin+float64(i)*(canvasWidth+margin)), coordinate(head), drawn.b.String())
	}
	m := run.Meta
	out.text("tick", "start", margin, out.height-10, fmt.Sprintf("Medians (rounds: %d); a line spans all rounds. %s, %d cores; commit %s, %s",
		run.Rounds(), m.Machine.CPU, m.Machine.Cores, m.Commit, m.Started.UTC().Format(time.DateOnly)))
	open := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s"`, coordinate(shown), coordinate(out.height*shown/out.width))
	start, body, _ := strings.Cut(strings.TrimPrefix(string(out.svg(p.title)), "<svg"), ">")
	return open + start + "><style>" + pictureStyle + `</style><rect class="back" width="100%" height="100%"/>` + body + "\n"
}
