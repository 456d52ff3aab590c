// Package report renders the record of a run: as Markdown, as a self-contained HTML page
// with pictures, as the table of README.md, and as results of goals.
//
// All numbers are medians over the rounds, with quartiles. "direct" is the load without a
// proxy. Ratios refer to the target "haproxy".
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	text "text/template"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

var (
	//go:embed page.html
	pageSource string
	// pictureStyle is a style sheet with the colors and strokes of pictures. The page
	// and the files use it.
	//go:embed pictures.css
	pictureStyle string
	//go:embed report.md.tmpl
	markdownSource string

	pageTemplate     = template.Must(template.Must(template.New("page").Parse(pageSource)).New("pictures").Parse(pictureStyle))
	markdownTemplate = text.Must(text.New("report").Funcs(text.FuncMap{"esc": func(v any) string { return escape(fmt.Sprint(v)) }}).Parse(markdownSource))
)

// page is the content of a report, for HTML and for Markdown.
type page struct {
	Head      string // heading of the Markdown report
	Facts     []fact
	Opening   string
	Direct    string // explanation of direct
	First     []picture
	Goals     []goalResult
	Open      []goalResult // goals that were not measured
	Notes     []string
	Legend    string
	Scenarios []pageScenario
	Growth    []picture
	Exponents []exponentRow
	GrowthIs  string
}

type pageScenario struct {
	table
	Name, ID string
	Notes    []string
	Pictures []picture
}

func pageOf(head string, run *sample.Run, goals []Goal) page {
	colours := paletteOf(run)
	p := page{
		Head: head, Facts: facts(run), Opening: opening(run, goals), Direct: aboutDirect(run), Notes: generalNotes(run), Legend: legend(run),
		Exponents: growths(run), GrowthIs: growthLegend,
	}
	for _, v := range judgeGoals(run, goals) {
		if v.State.judged() {
			p.Goals = append(p.Goals, v)
		} else {
			p.Open = append(p.Open, v)
		}
	}
	for _, c := range colours.openingCharts(run) {
		caption := c.title
		if text := c.missingWords(); text != "" {
			caption += " (" + text + ")"
		}
		p.First = append(p.First, picture{caption, c.draw(), c.text()})
	}
	for i, name := range run.Scenarios() {
		t := tableOf(run, name)
		for i := range t.Rows {
			t.Rows[i].Class = seriesClass(colours[t.Rows[i].Target])
		}
		p.Scenarios = append(p.Scenarios, pageScenario{t, name, fmt.Sprintf("scenario-%d", i+1), notesOf(run, name), colours.pictures(run, t)})
	}
	for _, c := range curves(run) {
		p.Growth = append(p.Growth, colours.growth(c))
	}
	return p
}

// HTML returns the report as one self-contained page.
func HTML(run *sample.Run, goals ...Goal) (string, error) {
	var b strings.Builder
	if err := pageTemplate.ExecuteTemplate(&b, "page", pageOf("", run, goals)); err != nil {
		return "", fmt.Errorf("building the page: %w", err)
	}
	return b.String(), nil
}

// Markdown returns the report as Markdown.
func Markdown(run *sample.Run, goals ...Goal) string {
	return markdown("# Benchmark report\n\n", run, goals)
}

// ResultsMarkdown returns bench/RESULTS.md.
func ResultsMarkdown(run *sample.Run, goals ...Goal) string {
	return markdown("# Results\n\nWritten by the bench harness from one run, never by hand; [README.md](README.md) says how to repeat it.\n\n", run, goals)
}

func markdown(head string, run *sample.Run, goals []Goal) string {
	var b strings.Builder
	if err := markdownTemplate.Execute(&b, pageOf(head, run, goals)); err != nil {
		panic("BUG: the template of the report: " + err.Error())
	}
	return b.String()
}

// Write writes report.md and report.html into dir, and creates dir if necessary.
func Write(dir string, run *sample.Run, goals ...Goal) error {
	page, err := HTML(run, goals...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for name, text := range map[string]string{"report.md": Markdown(run, goals...), "report.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}
