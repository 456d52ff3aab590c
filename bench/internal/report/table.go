package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// table has the measurements of one scenario: a row per target, a column per figure and
// latency percentile.
type table struct {
	scenario string
	Columns  []column
	Rows     []row
}

type column struct {
	figure, label string
	unit          unit // unit of the cells
	better        sample.Better
}

type row struct {
	Target string
	Class  string // CSS class of the target's color
	Cells  []cell // one per column
}

// cell is a figure of a target, in the unit of its column.
type cell struct {
	spread sample.Spread // N = 0 if the figure was not measured
	ratio  float64       // ratio to the median of the reference; NaN = none
	noise  bool          // see isNoise
}

// columnsPerTable is the maximum number of figures per Markdown table.
const columnsPerTable = 6

// Parts splits the table by columnsPerTable, and omits rows without measurements.
func (t table) Parts() (parts []table) {
	for from := 0; from < len(t.Columns); from += columnsPerTable {
		to := min(from+columnsPerTable, len(t.Columns))
		part := table{t.scenario, t.Columns[from:to], nil}
		for _, r := range t.Rows {
			r.Cells = r.Cells[from:to]
			if slices.ContainsFunc(r.Cells, func(c cell) bool { return c.spread.N > 0 }) {
				part.Rows = append(part.Rows, r)
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// String returns the label with the unit.
func (c column) String() string {
	if name := c.unitName(); name != "" {
		return c.label + " (" + name + ")"
	}
	return c.label
}

// unitName returns the name of the unit. If the label already ends with "per second", it
// returns "" instead of "/s".
func (c column) unitName() string {
	if c.unit.name == "/s" && strings.HasSuffix(c.label, "per second") {
		return ""
	}
	return c.unit.name
}

// withinNoise is the text that tables and charts show instead of a negative added
// latency.
const withinNoise = "within noise"

const noiseMeans = "Within noise: the percentile was lower with the proxy than without, so the differences between the rounds are larger than what the proxy adds."

// isNoise reports whether a figure is a negative added latency. A proxy cannot make
// requests faster, so such a value only shows how much the rounds differ.
func isNoise(figure string, value float64) bool {
	return value < 0 && strings.HasPrefix(figure, "added_")
}

func (c column) isLatency() bool {
	_, ok := sample.PercentileOf(c.figure)
	return ok
}

// isMemory reports whether the figure is an amount of bytes.
func (c column) isMemory() bool { return c.unit.base == amounts }

func tableOf(run *sample.Run, scenario string) table {
	t := table{scenario: scenario}
	figures := run.FigureNames(scenario)
	for _, p := range run.Percentiles(scenario) {
		if slices.Contains(sample.Customary, p) {
			figures = append(figures, sample.PercentileName(p))
		}
	}
	targets := run.Targets(scenario)
	for _, f := range figures {
		name, better := run.Unit(scenario, f)
		c := column{f, label(f), unitOf(name), better}
		c.scale(run, scenario, targets)
		t.Columns = append(t.Columns, c)
	}
	for _, target := range targets {
		r := row{Target: target}
		for _, c := range t.Columns {
			r.Cells = append(r.Cells, c.cell(run, scenario, target))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// scale sets the unit that suits the medians of all targets.
func (c *column) scale(run *sample.Run, scenario string, targets []string) {
	var medians []float64
	for _, target := range targets {
		if m := math.Abs(sample.Median(run.Values(scenario, target, c.figure))); m > 0 {
			medians = append(medians, m)
		}
	}
	if len(medians) > 0 {
		c.unit = c.unit.scaled(sample.Median(medians))
	}
}

func (c column) cell(run *sample.Run, scenario, target string) cell {
	values := c.inUnit(run, scenario, target)
	out := cell{spread: sample.SpreadOf(values), ratio: math.NaN()}
	out.noise = isNoise(c.figure, out.spread.Median)
	if target == reference || c.better == sample.Neither || out.noise {
		return out
	}
	if r := sample.Median(c.inUnit(run, scenario, reference)); r > 0 {
		out.ratio = out.spread.Median / r
	}
	return out
}

// inUnit returns the values of a target in the column's unit.
func (c column) inUnit(run *sample.Run, scenario, target string) []float64 {
	return valuesIn(c.unit, run, scenario, target, c.figure)
}

func valuesIn(u unit, run *sample.Run, scenario, target, figure string) []float64 {
	recorded, _ := run.Unit(scenario, figure)
	f, _ := unitOf(recorded).factorTo(u)
	values := run.Values(scenario, target, figure)
	for i := range values {
		values[i] *= f
	}
	return values
}

// Median, Spread, Range and Ratio return the parts of a cell as text. Spread shows the
// quartiles. Range shows the smallest and the largest value. Both are "" if there was
// only one round.
func (c cell) Median() string {
	if c.noise {
		return withinNoise
	}
	return number(c.spread.Median)
}

func (c cell) Spread() string { return c.formatRange("", "–", c.spread.Q1, c.spread.Q3) }

func (c cell) Range() string { return c.formatRange("from ", " to ", c.spread.Min, c.spread.Max) }

func (c cell) formatRange(prefix, separator string, low, high float64) string {
	if c.spread.N < 2 {
		return ""
	}
	return prefix + number(low) + separator + number(high)
}

func (c cell) Ratio() string {
	if math.IsNaN(c.ratio) {
		return ""
	}
	return ratioText(c.ratio)
}

// ratioText formats a ratio with two digits after the decimal point, or with more if
// these two are zero.
func ratioText(r float64) string {
	switch {
	case r >= 9.995:
		return number(r) + "×"
	case r > 0 && r < 0.095:
		return strconv.FormatFloat(r, 'g', 2, 64) + "×"
	}
	return strconv.FormatFloat(r, 'f', 2, 64) + "×"
}
