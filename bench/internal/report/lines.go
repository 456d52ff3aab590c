package report

import (
	"html/template"
	"math"
	"slices"
)

// lineChart draws lines over two axes, each labelled at its right end.
type lineChart struct {
	title    string
	vertical string // what goes up
	across   string // what goes right
	xLog     bool
	xTicks   []tick // the marks below; the outermost are the axis's ends
	value    func(float64) string
	lines    []chartLine
}

type tick struct {
	at    float64
	words string
}

type chartLine struct {
	name   string
	series int
	points []chartPoint // ascending
}

type chartPoint struct {
	x, y  float64 // y above zero
	words string  // what the pointer shows
}

// leastLabelGap is the distance of two lines of text.
const leastLabelGap = 13

// draw returns the picture, or nothing if there is no point to draw.
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
		low: l.xTicks[0].at, high: l.xTicks[len(l.xTicks)-1].at,
	}
	c.text("axis", "start", 0, 11, l.vertical)
	for _, v := range y.ticks() {
		c.line("grid", left, y.at(v), x.to+8, y.at(v))
		c.text("tick", "end", left-4, y.at(v)+4, l.value(v))
	}
	l.drawTicks(c, x, y)
	c.text("axis", "middle", (x.from+x.to)/2, y.from+33, l.across)
	l.drawLines(c, x, y)
	return c.svg(l.title)
}

// drawTicks names as many ticks as have room, the last in any case.
func (l lineChart) drawTicks(c *canvas, x, y axis) {
	const gap = 3
	final := len(l.xTicks) - 1
	free, end := math.Inf(-1), x.to-textWidth(l.xTicks[final].words)/2-gap
	for i, t := range l.xTicks {
		at := x.at(t.at)
		c.line("grid", at, y.to, at, y.from+4)
		half := textWidth(t.words) / 2
		if i < final && (at-half < free || at+half > end) {
			continue
		}
		free = at + half + gap
		c.text("tick", "middle", at, y.from+16, t.words)
	}
}

func (l lineChart) drawLines(c *canvas, x, y axis) {
	ends := make([]float64, len(l.lines))
	for i, s := range l.lines {
		ends[i] = y.at(s.points[len(s.points)-1].y)
	}
	ends = apart(ends, leastLabelGap, y.to, y.from)
	order := indexes(len(l.lines))
	// The gate's own line is drawn last, above all others.
	if own := slices.IndexFunc(l.lines, func(s chartLine) bool { return s.name == gate }); own >= 0 {
		order = append(slices.Delete(order, own, own+1), own)
	}
	for _, i := range order {
		s := l.lines[i]
		class := "series " + seriesClass(s.series)
		if s.name == gate {
			class += " own"
		}
		c.group(class)
		points := make([][2]float64, len(s.points))
		for k, p := range s.points {
			points[k] = [2]float64{x.at(p.x), y.at(p.y)}
		}
		c.path("stroke", points)
		for k, p := range s.points {
			c.marker(s.series, points[k][0], points[k][1], s.name+": "+p.words)
		}
		last := points[len(points)-1]
		at := x.to + 20
		c.line("leader", last[0]+4, last[1], at-5, ends[i])
		c.marker(s.series, at, ends[i], "")
		c.text("label", "start", at+8, ends[i]+4, shorten(s.name, 16))
		c.endGroup()
	}
}
