package report

import (
	"html/template"
	"math"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// barChart draws a bar for each target, from zero to the median, and over it a
// line from the least to the largest value of the rounds.
type barChart struct {
	title string
	unit  string
	bars  []bar
	low   float64 // where bars begin; above zero makes the axis logarithmic
	high  float64 // what the axis reaches at least
}

type bar struct {
	name   string
	series int
	spread sample.Spread
}

// draw returns the picture, or nothing if there is no bar.
func (b barChart) draw() template.HTML {
	if len(b.bars) == 0 {
		return ""
	}
	return b.canvas().svg(b.title)
}

func (b barChart) canvas() *canvas {
	const rowHeight, barHeight, head = 27.0, 15.0, 22.0
	highest, widest, valueWidth := b.high, 0.0, 0.0
	for _, bar := range b.bars {
		highest = max(highest, bar.spread.Max)
		widest = max(widest, textWidth(shorten(bar.name, 20)))
		valueWidth = max(valueWidth, textWidth(number(bar.spread.Median)))
	}
	if highest <= 0 {
		highest = 1
	}
	c := &canvas{height: head + rowHeight*float64(len(b.bars)) + 20}
	x := axis{from: widest + 8, to: canvasWidth - valueWidth - 10, low: b.low, high: highest, log: b.low > 0}
	bottom := c.height - 18
	c.text("axis", "start", 0, 11, b.unit)
	free := math.Inf(-1)
	for _, v := range x.ticks() {
		c.line("grid", x.at(v), head-4, x.at(v), bottom)
		half := textWidth(shortNumber(v)) / 2
		if x.at(v)-half < free {
			continue
		}
		free = x.at(v) + half + 4
		c.text("tick", "middle", x.at(v), bottom+13, shortNumber(v))
	}
	for i, bar := range b.bars {
		top := head + rowHeight*float64(i) + (rowHeight-barHeight)/2
		middle := top + barHeight/2
		class := "series " + seriesClass(bar.series)
		if bar.name == gate {
			class += " own"
		}
		c.group(class)
		c.text("label", "end", x.from-6, middle+4, shorten(bar.name, 20))
		end := x.at(max(x.low, bar.spread.Median))
		c.rect("bar", x.from, top, end-x.from, barHeight)
		if bar.spread.N > 1 {
			low, high := x.at(max(x.low, bar.spread.Min)), x.at(max(x.low, bar.spread.Max))
			c.line("halo", low, middle, high, middle)
			c.line("whisker", low, middle, high, middle)
			c.line("whisker", low, middle-3, low, middle+3)
			c.line("whisker", high, middle-3, high, middle+3)
			end = max(end, high)
		}
		c.text("value", "start", end+5, middle+4, number(bar.spread.Median))
		c.endGroup()
	}
	return c
}
