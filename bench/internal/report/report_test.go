package report

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func madeUp(t *testing.T) (*sample.Run, []Goal) {
	t.Helper()
	run, err := sample.ReadFile("testdata/made-up.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return run, theGoals(t)
}

func theGoals(t *testing.T) []Goal {
	t.Helper()
	text, err := os.ReadFile("../../goals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	goals, err := ParseGoals(text)
	if err != nil {
		t.Fatal(err)
	}
	return goals
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d (-update rewrites it):\ngot  %s\nwant %s", name, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d (-update rewrites it)", name, len(g), len(w))
}

func TestTheMarkdownOfARunIsTheGoldenFile(t *testing.T) {
	run, goals := madeUp(t)
	golden(t, "made-up-report.md", Markdown(run, goals...))
}

func TestTheFirstChartsSayWhichTargetsHaveNoFigure(t *testing.T) {
	run, goals := madeUp(t)
	const missingText = "no figure of envoy: see the notes of this scenario below"
	if strings.Contains(Markdown(run, goals...), missingText) {
		t.Fatal("a target without a note is named")
	}
	first := run.Scenarios()[0]
	run.Notes = append(run.Notes, sample.Note{Scenario: first, Target: "envoy", Text: "the load generator was saturated"},
		sample.Note{Scenario: first, Target: direct, Text: "the load generator was saturated"})
	page, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{Markdown(run, goals...), page} {
		if !strings.Contains(text, missingText) {
			t.Errorf("the report does not say %q:\n%.2000s", missingText, text)
		}
	}
}

func TestTheReadmeTableOfARunMatchesTheGoldenFile(t *testing.T) {
	run, goals := madeUp(t)
	golden(t, "made-up-readme.md", ReadmeTable(run, goals...))
}

func TestTheResultsFileSaysThatTheHarnessWroteIt(t *testing.T) {
	run, goals := madeUp(t)
	got := ResultsMarkdown(run, goals...)
	if !strings.HasPrefix(got, "# Results\n") || !strings.Contains(got, "never by hand") {
		t.Errorf("begins with %.120q", got)
	}
	report := Markdown(run, goals...)
	if tables := report[strings.Index(report, "| |"):]; !strings.HasSuffix(got, tables) {
		t.Error("does not hold the tables of the report")
	}
}

func TestWriteCreatesTheDirectoryAndBothFiles(t *testing.T) {
	run, goals := madeUp(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second iteration replaces existing files
		if err := Write(dir, run, goals...); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "report.html report.md" {
		t.Errorf("files %q", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || string(text) != Markdown(run, goals...) {
		t.Errorf("report.md is not the Markdown: %v", err)
	}
}

func TestThePageIsWellFormedWithUniqueIdentifiers(t *testing.T) {
	run, goals := madeUp(t)
	text, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = true
	d.Entity = xml.HTMLEntity
	ids, links := map[string]int{}, []string{}
	count := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		count[e.Name.Local]++
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "id":
				ids[a.Value]++
			case "href":
				links = append(links, a.Value)
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q is there %d times", id, n)
		}
	}
	for _, l := range links {
		if id, ok := strings.CutPrefix(l, "#"); !ok || ids[id] == 0 {
			t.Errorf("link to %q has no target on the page", l)
		}
	}
	if count["script"] > 0 {
		t.Error("there is a script")
	}
	if count["section"] != len(run.Scenarios())+1 {
		t.Errorf("%d sections, want one for each of %d scenarios and growth", count["section"], len(run.Scenarios()))
	}
	if count["svg"] < 20 || count["svg"] != count["figure"] {
		t.Errorf("%d pictures in %d figures", count["svg"], count["figure"])
	}
}

func TestThePageLoadsNoOtherResources(t *testing.T) {
	run, goals := madeUp(t)
	text, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{`(?i)https?://`, `(?i)\bsrc\s*=`, `(?i)@import`, `(?i)url\(`, `(?i)<(link|iframe|object|embed|script)\b`, `["'(]//`} {
		if found := regexp.MustCompile(foreign).FindString(text); found != "" {
			t.Errorf("the page holds %q", found)
		}
	}
}

func TestThePicturesOfThePageHaveDescriptions(t *testing.T) {
	run, goals := madeUp(t)
	text, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	has := func(description, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q", description, want)
		}
	}
	for _, f := range facts(run) {
		has("the run", ">"+f.Value+"<")
	}
	for _, v := range judgeGoals(run, goals) {
		has(v.Description, ">"+v.Description+"</td>")
		has(v.Description, ">"+v.Measured+"</td>")
	}
	for _, scenario := range run.Scenarios() {
		for _, r := range tableOf(run, scenario).Rows {
			for _, c := range r.Cells {
				if c.spread.N > 0 {
					has(scenario+" "+r.Target, ">"+number(c.spread.Median))
				}
				if c.spread.N > 1 {
					has(scenario+" "+r.Target, "<small>"+number(c.spread.Q1)+"–"+number(c.spread.Q3)+"</small>")
				}
			}
		}
	}
	for _, r := range growths(run) {
		has(r.Label, ">"+r.Exponent+"</td>")
	}
	for _, n := range []string{"All data in this record are made up", "&lt;binary&gt; &amp; try again", "<li>nginx: the load generator was saturated in round 3</li>"} {
		has("notes", n)
	}
	has("colours", "prefers-color-scheme: dark")
	has("width", "width=device-width")
}

func TestAReportOpensWithASentenceAndPictures(t *testing.T) {
	run, goals := madeUp(t)
	sentence := opening(run, goals)
	if !strings.HasPrefix(sentence, "CPU per request, keep-alive GET, 64 connections: 0.937 × haproxy's") {
		t.Errorf("it opens with %q", sentence)
	}
	page, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, first, then string }{
		{"the page", page, "0.937 × haproxy", "<svg"}, {"the page", page, "<svg", "<dl>"}, {"the page", page, "<svg", "<h2>Goals"},
		{"Markdown", Markdown(run, goals...), "0.937 × haproxy's", "███"}, {"Markdown", Markdown(run, goals...), "███", "| commit |"},
	} {
		first, then := strings.Index(c.text, c.first), strings.Index(c.text, c.then)
		if first < 0 || then < first {
			t.Errorf("%s: %q is at %d, %q at %d", c.name, c.first, first, c.then, then)
		}
	}
}

// firstRun returns a record like the one that the first benchmark command in README.md
// makes: one round of keepalive-64 with the targets direct and queuegate.
func firstRun() *sample.Run {
	run := &sample.Run{Meta: sample.Meta{Version: 1}}
	for _, f := range []sample.Figure{
		{Target: "direct", Figure: "requests_per_second", Value: 60_000, Unit: "/s", Better: sample.Higher},
		{Target: "queuegate", Figure: "requests_per_second", Value: 30_000, Unit: "/s", Better: sample.Higher},
		{Target: "queuegate", Figure: "cpu_per_request", Value: 20, Unit: "us", Better: sample.Lower},
	} {
		f.Round, f.Scenario = 1, "keepalive-64"
		run.Figures = append(run.Figures, f)
	}
	return run
}

func TestAReportWithoutGoalsExplainsItsFigures(t *testing.T) {
	run, goals := firstRun(), theGoals(t)
	page, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the page": page, "Markdown": Markdown(run, goals...)} {
		for _, want := range []string{
			"keepalive-64: queuegate with 20.0 µs of CPU per request, 30,000 requests per second.", "refer to other scenarios",
			"direct is the same load without a proxy. A proxy adds a hop", "an upper bound that no proxy reaches",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q", name, want)
			}
		}
	}
	run.Figures = run.Figures[1:]
	if text := Markdown(run, goals...); strings.Contains(text, "direct") {
		t.Error("a run without direct explains it")
	}
}

func TestANegativeAddedLatencyIsReportedAsWithinNoise(t *testing.T) {
	run := &sample.Run{Meta: sample.Meta{Version: 1}}
	for target, added := range map[string]float64{"queuegate": -115, "haproxy": 659} {
		run.Figures = append(run.Figures, sample.Figure{Round: 1, Scenario: "open-2000", Target: target, Figure: "added_p99", Value: added, Unit: "us", Better: sample.Lower})
	}
	goals := theGoals(t)
	page, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the page": page, "Markdown": Markdown(run, goals...), "the README": ReadmeTable(run, goals...)} {
		if strings.Contains(text, "-115") || !strings.Contains(text, "within noise") || !strings.Contains(text, noiseMeans) || !strings.Contains(text, "659") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if text := ReadmeTable(firstRun(), goals...); strings.Contains(text, "noise") {
		t.Errorf("a table without noise explains it:\n%s", text)
	}
}

func TestGoalsThatWereNotMeasuredAreCollapsedInReports(t *testing.T) {
	run, goals := madeUp(t)
	page, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the page": page, "Markdown": Markdown(run, goals...)} {
		shown, rest, found := strings.Cut(text, "<details>")
		folded, _, closed := strings.Cut(rest, "</details>")
		if !found || !closed || strings.Contains(shown, "not measured</td>") || strings.Contains(shown, ": not measured") {
			t.Errorf("%s: a goal that was not measured is not collapsed", name)
		}
		if !strings.Contains(folded, "goals were not measured") || !strings.Contains(folded, "Added p99 of forwarding a chunk") || strings.Contains(folded, "Private memory, idle") {
			t.Errorf("%s: the collapsed part is %s", name, folded)
		}
	}
}

func TestNamesInABenchmarkRecordCannotInsertHTMLIntoTheReport(t *testing.T) {
	const evil = `"><script>alert('x')</script>`
	run := &sample.Run{Meta: sample.Meta{Version: 1, Commit: evil, Options: map[string]string{evil: evil}}}
	for round := 1; round <= 2; round++ {
		for _, target := range []string{"queuegate", evil} {
			run.Figures = append(run.Figures, sample.Figure{Round: round, Scenario: evil, Target: target, Figure: "cpu_" + evil, Value: 2, Unit: evil, Better: sample.Lower})
			run.AddLatency(sample.Latency{Round: round, Scenario: evil, Target: target, Unit: evil, Quantiles: []sample.Quantile{{50, 1}, {99, 2}}})
		}
	}
	run.Notes = []sample.Note{{Text: evil, Target: evil}}
	text, err := HTML(run)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "<script") || strings.Contains(text, `=""><`) {
		t.Error("markup of the record is markup of the page")
	}
	// The scenario has two pictures, a latency curve and a bar chart. The top of the page
	// repeats the bar chart.
	if n := strings.Count(text, "<svg"); n != 3 {
		t.Errorf("%d pictures, want 3", n)
	}
	if md := Markdown(run); strings.Contains(md, "<script") {
		t.Error("markup of the record is markup in Markdown")
	}
}

func TestAnEmptyRunProducesAPage(t *testing.T) {
	goals := theGoals(t)
	run := &sample.Run{Meta: sample.Meta{Version: 1}}
	text, err := HTML(run, goals...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "<svg") || !strings.Contains(text, "not measured") {
		t.Error("an empty run has pictures, or goals that were judged")
	}
	if got := ReadmeTable(run, goals...); strings.Contains(got, "|") {
		t.Errorf("an empty run has a table: %s", got)
	}
}
