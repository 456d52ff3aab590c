package report

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// plot is a picture of docs/overload.md, a file that needs no page: charts side
// by side, on one scale.
type plot struct {
	file, title string
	log         bool
	charts      []barChart
}

// WritePlots writes the pictures of docs/overload.md as far as the run measured
// them, and returns the names of the files.
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
		return nil, errors.New("writing the plots: the run measured none of the scenarios collapse-3, collapse-10, tenant and class")
	}
	return names, nil
}

// plotsOf returns the plots that have something to show.
func plotsOf(run *sample.Run) []plot {
	all := []plot{
		{file: "overload-goodput.svg", title: "Goodput with the best fixed limit, with auto, with none (higher is better)"},
		{file: "overload-p99.svg", title: "p99 of admitted requests, and without load (lower is better; logarithmic)", log: true},
		{file: "overload-turns.svg", title: "p99 of one client, alone and beside a flood (lower is better)"},
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
	all[2].charts = turnCharts(run)
	for i := range all {
		all[i].charts = slices.DeleteFunc(all[i].charts, func(c barChart) bool { return len(c.bars) == 0 })
	}
	return slices.DeleteFunc(all, func(p plot) bool { return len(p.charts) == 0 })
}

// admitted returns the rounds' p99 in ms, under load and without. The record
// has the second as a ratio.
func admitted(run *sample.Run, scenario, target string) (loaded, unloaded []float64) {
	ratios := map[int]float64{} // by round
	for _, f := range run.Figures {
		if f.Scenario == scenario && f.Target == target && f.Figure == "p99_beside_unloaded" {
			ratios[f.Round] = f.Value
		}
	}
	for _, f := range run.Figures {
		if f.Scenario != scenario || f.Target != target || f.Figure != "p99" {
			continue
		}
		factor, _ := unitOf(f.Unit).to(unitOf("ms"))
		loaded = append(loaded, f.Value*factor)
		if r := ratios[f.Round]; r > 0 {
			unloaded = append(unloaded, f.Value*factor/r)
		}
	}
	return loaded, unloaded
}

// turnCharts are of the clients beside whom another one floods.
func turnCharts(run *sample.Run) (charts []barChart) {
	for _, c := range []struct {
		who  string
		rows [][2]string
	}{
		{"a tenant at a tenth of its share", [][2]string{{"tenant-fair", "fair queue"}, {"tenant-fifo", "strict FIFO"}}},
		{"the highest class at half the capacity", [][2]string{{"class-first", "class 0"}}},
	} {
		chart := barChart{unit: "ms, " + c.who}
		for _, row := range c.rows {
			for series, when := range []string{"alone", "flood"} {
				chart.add(row[1]+", "+when, series, valuesIn(unitOf("ms"), run, row[0], gate, "p99_"+when))
			}
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

// svg returns the file. It has a background of its own: what is around it may
// be dark while the reader's setting is light.
func (p plot) svg(run *sample.Run) string {
	const margin, head, foot, shown = 16.0, 44.0, 26.0, 720
	low, high := math.Inf(1), 0.0
	for _, c := range p.charts {
		for _, b := range c.bars {
			low, high = min(low, b.spread.Min), max(high, b.spread.Max)
		}
	}
	out := &canvas{width: 2*canvasWidth + 3*margin}
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
	out.text("tick", "start", margin, out.height-10, fmt.Sprintf("Medians (rounds: %d), and a line from the least to the largest. %s, %d cores; commit %s, %s",
		run.Rounds(), m.Machine.CPU, m.Machine.Cores, m.Commit, m.Started.UTC().Format(time.DateOnly)))
	open := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s"`, shown, coordinate(out.height*shown/out.width))
	start, body, _ := strings.Cut(strings.TrimPrefix(string(out.svg(p.title)), "<svg"), ">")
	return open + start + "><style>" + pictureStyle + `</style><rect class="back" width="100%" height="100%"/>` + body + "\n"
}
