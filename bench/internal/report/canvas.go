package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// canvasWidth is the width of a picture in units, about the width of a phone in pixels.
const canvasWidth = 360

// characterWidth is the assumed width of a character. The reader's font is unknown, so
// the value is that of a wide, bold sans-serif font.
const characterWidth = 7.2

// canvas collects the elements of an SVG picture. The style sheet defines the colors:
// class sN has the color of series N.
//
// The plotting libraries gonum.org/v1/plot and go-analyze/charts are not used. Their SVG
// has no tooltips, and its colors cannot follow the light or dark scheme of the reader.
// Our charts also have no legend: the name of a line is next to the end of the line.
type canvas struct {
	b      strings.Builder
	width  float64 // 0 = canvasWidth
	height float64
}

func (c *canvas) svg(title string) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`,
		coordinate(cmp.Or(c.width, canvasWidth)), coordinate(c.height), html.EscapeString(title), c.b.String()))
}

// put writes an element. It formats numbers as coordinates and escapes text.
func (c *canvas) put(format string, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case float64:
			values[i] = coordinate(v)
		case string:
			values[i] = html.EscapeString(v)
		}
	}
	fmt.Fprintf(&c.b, format, values...)
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.put(`<line class="%v" x1="%v" y1="%v" x2="%v" y2="%v"/>`, class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	c.put(`<rect class="%v" x="%v" y="%v" width="%v" height="%v"/>`, class, x, y, w, h)
}

// text writes text at a baseline. anchor is "start", "middle" or "end".
func (c *canvas) text(class, anchor string, x, y float64, content string) {
	c.put(`<text class="%v" text-anchor="%v" x="%v" y="%v">%v</text>`, class, anchor, x, y, content)
}

func (c *canvas) path(class string, points [][2]float64) {
	c.put(`<path class="%v" d="M%v"/>`, class, joined(points, " ", "L"))
}

func joined(points [][2]float64, pointSeparator, separator string) string {
	var all []string
	for _, p := range points {
		all = append(all, coordinate(p[0])+pointSeparator+coordinate(p[1]))
	}
	return strings.Join(all, separator)
}

// marks has the shape of the mark for each series. A shape is a polygon, given by its
// corners relative to the center. Series 0 has a circle instead, so its element is nil.
// Series from 5 upwards reuse the shapes.
var marks = [5][][2]float64{
	nil,
	{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}},
	{{0, -1.25}, {1.2, 1}, {-1.2, 1}},
	{{0, -1.4}, {1.4, 0}, {0, 1.4}, {-1.4, 0}},
	{{-1.2, -1}, {1.2, -1}, {0, 1.25}},
}

// marker draws the mark of a series, with a tooltip.
func (c *canvas) marker(series int, x, y float64, title string) {
	const r = 3.2
	end := "</circle>"
	if shape := marks[series%5]; shape == nil {
		c.put(`<circle class="mark" cx="%v" cy="%v" r="%v">`, x, y, r)
	} else {
		end = "</polygon>"
		var corners [][2]float64
		for _, k := range shape {
			corners = append(corners, [2]float64{x + k[0]*r, y + k[1]*r})
		}
		c.put(`<polygon class="mark" points="%v">`, joined(corners, ",", " "))
	}
	if title != "" {
		c.put("<title>%v</title>", title)
	}
	c.b.WriteString(end)
}

// group opens the SVG group of one series. The group of the gate has the additional class
// "own", with which the style sheet emphasizes the gate.
func (c *canvas) group(name string, series int) {
	own := ""
	if name == gate {
		own = " own"
	}
	c.put(`<g class="series %v%v">`, seriesClass(series), own)
}

func (c *canvas) endGroup()         { c.b.WriteString("</g>") }
func textWidth(s string) float64    { return characterWidth * float64(utf8.RuneCountInString(s)) }
func seriesClass(series int) string { return fmt.Sprintf("s%d", series) }
func coordinate(v float64) string   { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// axis maps values to coordinates.
type axis struct {
	from, to float64 // coordinates of the lowest and the highest value
	low      float64
	high     float64
	log      bool
}

func (a axis) position(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	if high == low {
		return (a.from + a.to) / 2
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// logAxis returns a logarithmic axis for positive values, with a margin at both ends.
func logAxis(from, to float64, values []float64) axis {
	low, high := slices.Min(values), slices.Max(values)
	room := max(math.Pow(high/low, 0.05), 1.15)
	return axis{from: from, to: to, low: low / room, high: high * room, log: true}
}

// ticks returns round values on the axis. A logarithmic axis has the powers of ten, and
// values between them if these are few. A linear or short axis has about five ticks.
func (a axis) ticks() []float64 {
	var all []float64
	if a.log && a.high/a.low > 2.5 {
		decades := math.Log10(a.high / a.low)
		steps := []float64{1}
		switch {
		case decades < 1.2:
			steps = []float64{1, 1.5, 2, 3, 5, 7}
		case decades < 2.4:
			steps = []float64{1, 2, 5}
		}
		skip := int(math.Ceil(decades / 6))
		first := int(math.Floor(math.Log10(a.low)))
		for e := first; math.Pow(10, float64(e)) <= a.high; e++ {
			if decades > 6 && (e-first)%skip != 0 {
				continue
			}
			for _, s := range steps {
				if v := s * math.Pow(10, float64(e)); v >= a.low && v <= a.high {
					all = append(all, v)
				}
			}
		}
		return all
	}
	step := niceStep((a.high - a.low) / 5)
	for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
		all = append(all, i*step)
	}
	return all
}

// niceStep returns the smallest of 1, 2 and 5 times a power of ten that is at
// least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, s := range []float64{1, 2, 5} {
		if s*power >= v*(1-1e-9) {
			return s * power
		}
	}
	return 10 * power
}

// apart moves coordinates so that the distance between two neighbors is at least gap. The
// results are between low and high if there is enough space.
func apart(at []float64, gap, low, high float64) []float64 {
	order := indexes(len(at))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	out := slices.Clone(at)
	floor := low
	for _, i := range order {
		out[i] = max(out[i], floor)
		floor = out[i] + gap
	}
	ceiling := high
	for _, i := range slices.Backward(order) {
		out[i] = min(out[i], ceiling)
		ceiling = out[i] - gap
	}
	return out
}

// tickNumber formats a round value without trailing zeros.
func tickNumber(v float64) string {
	if math.Abs(v) >= 999.5 {
		return number(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// shortNumber formats a round value in few characters.
func shortNumber(v float64) string {
	switch {
	case v >= 1e6:
		return tickNumber(v/1e6) + "M"
	case v >= 1e3:
		return tickNumber(v/1e3) + "k"
	}
	return tickNumber(v)
}
