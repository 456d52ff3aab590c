package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

//go:embed page.html
var pageSource string

// pictureStyle has the colours and strokes of pictures, on the page and alone.
//
//go:embed pictures.css
var pictureStyle string

var pageTemplate = func() *template.Template {
	t := template.Must(template.New("page").Parse(pageSource))
	template.Must(t.New("pictures").Parse(pictureStyle))
	return t
}()

// page is what page.html shows.
type page struct {
	Facts     []pageFact
	Opening   string
	First     []picture
	Goals     []pageGoal
	Open      []pageGoal // not measured
	Notes     []string
	Legend    string
	Scenarios []pageScenario
	Growth    []picture
	Exponents []pageExponent
	GrowthIs  string
}

type pageFact struct{ Name, Value string }

type pageGoal struct {
	verdict
	Class string
}

type pageScenario struct {
	Name     string
	ID       string
	Notes    []string
	Pictures []picture
	Columns  []string
	Rows     []pageRow
}

type pageRow struct {
	Target string
	Class  string
	Cells  []pageCell
}

type pageCell struct{ Median, Spread, Range, Ratio string }

type pageExponent struct{ Over, Label, Target, Exponent, Last, Range string }

// HTML returns the report of a run as one page that needs nothing else.
func HTML(run *sample.Run, goals ...Goal) (string, error) {
	colours := paletteOf(run)
	p := page{Opening: opening(run, goals), Notes: generalNotes(run), Legend: strings.TrimSpace(legend(run)), GrowthIs: growthLegend}
	for _, f := range facts(run) {
		p.Facts = append(p.Facts, pageFact{f.name, f.value})
	}
	for _, v := range verdicts(run, goals) {
		g := pageGoal{verdict: v, Class: "open"}
		if v.State.good() {
			g.Class = "held"
		} else if v.State == missed {
			g.Class = "missed"
		}
		if v.State.judged() {
			p.Goals = append(p.Goals, g)
		} else {
			p.Open = append(p.Open, g)
		}
	}
	for _, c := range colours.openingCharts(run) {
		p.First = append(p.First, picture{c.title, c.draw()})
	}
	for i, name := range run.Scenarios() {
		t := tableOf(run, name)
		s := pageScenario{Name: name, ID: fmt.Sprintf("scenario-%d", i+1), Notes: notesOf(run, name), Pictures: colours.pictures(run, t)}
		for _, c := range t.columns {
			s.Columns = append(s.Columns, c.heading())
		}
		for _, r := range t.rows {
			row := pageRow{Target: r.target, Class: seriesClass(colours[r.target])}
			for _, c := range r.cells {
				row.Cells = append(row.Cells, c.page())
			}
			s.Rows = append(s.Rows, row)
		}
		p.Scenarios = append(p.Scenarios, s)
	}
	for _, c := range curves(run) {
		p.Growth = append(p.Growth, colours.growth(c))
	}
	for _, r := range growths(run) {
		p.Exponents = append(p.Exponents, pageExponent{
			r.curve.family.Stem, r.curve.label, r.line.target,
			exponentText(r.line.exponent), exponentText(r.line.last), r.curve.rangeText(r.line),
		})
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, p); err != nil {
		return "", fmt.Errorf("building the page: %w", err)
	}
	return b.String(), nil
}

func (c cell) page() pageCell {
	if c.spread.N == 0 {
		return pageCell{Median: "–"}
	}
	out := pageCell{Median: number(c.spread.Median)}
	if c.spread.N > 1 {
		out.Spread = number(c.spread.Q1) + "–" + number(c.spread.Q3)
		out.Range = "from " + number(c.spread.Min) + " to " + number(c.spread.Max)
	}
	if !math.IsNaN(c.ratio) {
		out.Ratio = ratioText(c.ratio)
	}
	return out
}
