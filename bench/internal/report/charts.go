package report

import (
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// barChart has a bar from zero to the median for each target. A line over the bar shows
// the range over the rounds.
type barChart struct {
	figure, caption string // name of a figure of the scenario; title of the chart
	title, unit     string
	bars            []bar
	missing         []string // targets with a note instead of a bar
	low             float64  // left end of the axis; above zero = logarithmic axis
	high            float64  // minimum of the right end of the axis
}

type bar struct {
	name   string
	series int
	spread sample.Spread
}

// missingWords returns a phrase that lists the targets without a bar. It returns "" if no
// target lacks a bar.
func (b barChart) missingWords() string {
	if len(b.missing) == 0 {
		return ""
	}
	return "no figure of " + strings.Join(b.missing, ", ") + ": see the notes of this scenario below"
}

// label is the text beside a bar.
func (b barChart) label(entry bar) string {
	if isNoise(b.figure, entry.spread.Median) {
		return withinNoise
	}
	return number(entry.spread.Median)
}

func (b barChart) draw() template.HTML { return b.canvas().svg(b.title) }

func (b barChart) canvas() *canvas {
	const rowHeight, barHeight, head = 27.0, 15.0, 22.0
	highest, widest, valueWidth := b.high, 0.0, 0.0
	for _, bar := range b.bars {
		highest = max(highest, bar.spread.Max)
		widest = max(widest, textWidth(shorten(bar.name, 20)))
		valueWidth = max(valueWidth, textWidth(b.label(bar)))
	}
	if highest <= 0 {
		highest = 1
	}
	c := &canvas{height: head + rowHeight*float64(len(b.bars)) + 20}
	x := axis{from: widest + 8, to: canvasWidth - valueWidth - 10, low: b.low, high: highest, log: b.low > 0}
	bottom := c.height - 18
	c.text("axis", "start", 0, 11, b.unit)
	var marks []tick
	for _, v := range x.ticks() {
		marks = append(marks, tick{v, shortNumber(v)})
	}
	c.ticks(x, marks, head-4, bottom, bottom+13, 4, false)
	for i, bar := range b.bars {
		top := head + rowHeight*float64(i) + (rowHeight-barHeight)/2
		middle := top + barHeight/2
		c.group(bar.name, bar.series)
		c.text("label", "end", x.from-6, middle+4, shorten(bar.name, 20))
		end := x.position(max(x.low, bar.spread.Median))
		c.rect("bar", x.from, top, end-x.from, barHeight)
		if bar.spread.N > 1 {
			low, high := x.position(max(x.low, bar.spread.Min)), x.position(max(x.low, bar.spread.Max))
			c.line("halo", low, middle, high, middle)
			c.line("whisker", low, middle, high, middle)
			c.line("whisker", low, middle-3, low, middle+3)
			c.line("whisker", high, middle-3, high, middle+3)
			end = max(end, high)
		}
		c.text("value", "start", end+5, middle+4, b.label(bar))
		c.endGroup()
	}
	return c
}

// lineChart draws lines over two axes. The name of each line is to the right of the line.
type lineChart struct {
	title    string
	vertical string // title of the vertical axis
	across   string // title of the horizontal axis
	xLog     bool
	xTicks   []tick // the first and the last tick are the ends of the axis
	value    func(float64) string
	lines    []chartLine
}

type tick struct {
	value float64
	label string
}

type chartLine struct {
	name   string
	series int
	points []chartPoint // ascending by x
}

type chartPoint struct {
	x, y    float64 // y is above zero
	tooltip string  // tooltip
}

// leastLabelGap is the minimum distance of two lines of text.
const leastLabelGap = 13

// draw returns the picture, or "" if there is no point.
func (l lineChart) draw() template.HTML {
	var ys []float64
	widest := 0.0
	for _, s := range l.lines {
		for _, p := range s.points {
			ys = append(ys, p.y)
		}
		widest = max(widest, textWidth(shorten(s.name, 16)))
	}
	if len(ys) == 0 || len(l.xTicks) == 0 {
		return ""
	}
	c := &canvas{height: 270}
	top := 26.0
	if l.vertical == "" {
		top = 8
	}
	y := logAxis(c.height-40, top, ys)
	left := 0.0
	for _, v := range y.ticks() {
		left = max(left, textWidth(l.value(v)))
	}
	left += 10
	x := axis{
		from: left + 8, to: canvasWidth - widest - 34, log: l.xLog,
		low: l.xTicks[0].value, high: l.xTicks[len(l.xTicks)-1].value,
	}
	c.text("axis", "start", 0, 11, l.vertical)
	for _, v := range y.ticks() {
		c.line("grid", left, y.position(v), x.to+8, y.position(v))
		c.text("tick", "end", left-4, y.position(v)+4, l.value(v))
	}
	c.ticks(x, l.xTicks, y.to, y.from+4, y.from+16, 3, true)
	c.text("axis", "middle", (x.from+x.to)/2, y.from+33, l.across)
	l.drawLines(c, x, y)
	return c.svg(l.title)
}

// ticks draws a grid line for each tick in marks. It omits the label of a tick if the
// label would be closer than gap to another label. If the parameter last is true, the
// last tick always has a label.
func (c *canvas) ticks(x axis, marks []tick, top, bottom, baseline, gap float64, last bool) {
	final := len(marks) - 1
	free, end := math.Inf(-1), math.Inf(1)
	if last {
		end = x.to - textWidth(marks[final].label)/2 - gap
	}
	for i, t := range marks {
		at, half := x.position(t.value), textWidth(t.label)/2
		c.line("grid", at, top, at, bottom)
		if (i < final || !last) && (at-half < free || at+half > end) {
			continue
		}
		free = at + half + gap
		c.text("tick", "middle", at, baseline, t.label)
	}
}

func (l lineChart) drawLines(c *canvas, x, y axis) {
	ends := make([]float64, len(l.lines))
	for i, s := range l.lines {
		ends[i] = y.position(s.points[len(s.points)-1].y)
	}
	ends = apart(ends, leastLabelGap, y.to, y.from)
	order := indexes(len(l.lines))
	// Draw the gate's line last, above all others.
	if own := slices.IndexFunc(l.lines, func(s chartLine) bool { return s.name == gate }); own >= 0 {
		order = append(slices.Delete(order, own, own+1), own)
	}
	for _, i := range order {
		s := l.lines[i]
		c.group(s.name, s.series)
		points := make([][2]float64, len(s.points))
		for k, p := range s.points {
			points[k] = [2]float64{x.position(p.x), y.position(p.y)}
		}
		c.path("stroke", points)
		for k, p := range s.points {
			c.marker(s.series, points[k][0], points[k][1], s.name+": "+p.tooltip)
		}
		last := points[len(points)-1]
		at := x.to + 20
		c.line("leader", last[0]+4, last[1], at-5, ends[i])
		c.marker(s.series, at, ends[i], "")
		c.text("label", "start", at+8, ends[i]+4, shorten(s.name, 16))
		c.endGroup()
	}
}
