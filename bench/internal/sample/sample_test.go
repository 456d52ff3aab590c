package sample

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var distribution = Latency{1, "open-2000", "direct", "us", []Quantile{{50, 80}, {99.9, 200}, {100, 900}}, 20000}

// completeRun returns a complete record. Its last figures are the latency percentiles
// that are declared above.
func completeRun() *Run {
	run := &Run{
		Meta: Meta{
			Version: 1, Started: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
			Machine:  Machine{CPU: "c", Cores: 2, MemoryBytes: 1 << 33, Kernel: "k", OS: "o"},
			Versions: map[string]string{"haproxy": "2"}, Commit: "abc", Options: map[string]string{"rounds": "5"},
		},
		Figures: []Figure{
			{1, "keepalive-64", "queuegate", "cpu_per_request", 8.1, "us", Lower},
			{1, "keepalive-64", "queuegate", "offered", 0, "", Neither},
		},
		Notes: []Note{{"envoy", "", "skipped"}},
	}
	run.AddLatency(distribution)
	return run
}

func written(t *testing.T, run *Run) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	errs := []error{w.Meta(run.Meta)}
	for _, f := range run.Figures {
		if _, percentile := PercentileOf(f.Figure); !percentile {
			errs = append(errs, w.Figure(f))
		}
	}
	errs = append(errs, w.Latency(distribution))
	for _, n := range run.Notes {
		errs = append(errs, w.Note(n))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAWrittenRunIsReadBackUnchanged(t *testing.T) {
	want := completeRun()
	text := written(t, want)
	got, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTheLinesHaveTheDocumentedFormat(t *testing.T) {
	want := `{"kind":"meta","version":1,"started":"2026-01-02T15:04:05Z","machine":{"cpu":"c","cores":2,"memory_bytes":8589934592,"kernel":"k","os":"o"},"versions":{"haproxy":"2"},"commit":"abc","options":{"rounds":"5"}}
{"kind":"figure","round":1,"scenario":"keepalive-64","target":"queuegate","figure":"cpu_per_request","value":8.1,"unit":"us","better":"lower"}
{"kind":"figure","round":1,"scenario":"keepalive-64","target":"queuegate","figure":"offered","value":0,"unit":""}
{"kind":"latency","round":1,"scenario":"open-2000","target":"direct","unit":"us","quantiles":[[50,80],[99.9,200],[100,900]],"count":20000}
{"kind":"note","target":"envoy","scenario":"","text":"skipped"}
`
	if got := written(t, completeRun()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// counting records each write.
type counting struct{ writes []string }

func (c *counting) Write(p []byte) (int, error) {
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func TestEachLineIsWrittenImmediatelyWithOneCall(t *testing.T) {
	c := &counting{}
	w := NewWriter(c)
	for i := 1; i <= 3; i++ {
		if err := w.Note(Note{Text: "x"}); err != nil {
			t.Fatal(err)
		}
		if len(c.writes) != i || !strings.HasSuffix(c.writes[i-1], "}\n") {
			t.Fatalf("after %d lines: writes %q", i, c.writes)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTheWriterRejectsLinesThatTheReaderRejects(t *testing.T) {
	c := &counting{}
	w := NewWriter(c)
	for name, err := range map[string]error{
		"no scenario":          w.Figure(Figure{Target: "t", Figure: "f"}),
		"not a number":         w.Figure(Figure{Scenario: "s", Target: "t", Figure: "f", Value: math.NaN()}),
		"infinite":             w.Figure(Figure{Scenario: "s", Target: "t", Figure: "f", Value: math.Inf(1)}),
		"unknown better":       w.Figure(Figure{Scenario: "s", Target: "t", Figure: "f", Better: "up"}),
		"no quantiles":         w.Latency(Latency{Scenario: "s", Target: "t"}),
		"descending quantiles": w.Latency(Latency{Scenario: "s", Target: "t", Quantiles: []Quantile{{99, 1}, {50, 2}}}),
		"percentile above 100": w.Latency(Latency{Scenario: "s", Target: "t", Quantiles: []Quantile{{101, 1}}}),
		"empty note":           w.Note(Note{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(c.writes) != 0 {
		t.Errorf("written: %q", c.writes)
	}
	if err := NewWriter(failing{}).Note(Note{Text: "x"}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
}

const metaLine = `{"kind":"meta","version":1,"started":"2026-01-02T15:04:05Z","machine":{},"commit":""}` + "\n"

func TestReaderErrorsNameTheLine(t *testing.T) {
	figure := `{"kind":"figure","round":1,"scenario":"s","target":"t","figure":"f","value":1,"unit":"us"}` + "\n"
	latency := `{"kind":"latency","round":1,"scenario":"s","target":"t","unit":"us","quantiles":[[50,1]]}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no meta line"},
		{"only empty lines", "\n\n", "no meta line"},
		{"not JSON", metaLine + "\nx\n", "line 3: invalid character"},
		{"another version", `{"kind":"meta","version":2}` + "\n", "line 1: version is 2, this reader supports 1"},
		{"no version", `{"kind":"meta"}` + "\n", "line 1: version is 0"},
		{"figure first", figure + metaLine, `line 1: kind "figure" before the meta line`},
		{"two meta lines", metaLine + figure + metaLine, "line 3: a second meta line"},
		{"unknown kind", metaLine + `{"kind":"fig"}` + "\n", `line 2: unknown kind "fig"`},
		{"no kind", metaLine + "{}\n", `line 2: unknown kind ""`},
		{"a string for a number", metaLine + strings.Replace(figure, `"value":1`, `"value":"1"`, 1), "line 2: json"},
		{"a figure without a name", metaLine + strings.Replace(figure, `"figure":"f"`, `"figure":""`, 1), "line 2: scenario"},
		{"an unknown better", metaLine + strings.Replace(figure, `"us"`, `"us","better":"up"`, 1), `line 2: better is "up"`},
		{"a negative round", metaLine + strings.Replace(figure, `"round":1`, `"round":-1`, 1), "line 2: round is -1"},
		{"a unit that changes", metaLine + figure + strings.Replace(figure, `"us"`, `"ms"`, 1), `line 3: s f is in "ms", before it was in "us"`},
		{"a latency without quantiles", metaLine + `{"kind":"latency","scenario":"s","target":"t"}` + "\n", "line 2: s t has no quantiles"},
		{"descending percentiles", metaLine + `{"kind":"latency","scenario":"s","target":"t","quantiles":[[50,1],[10,1]]}` + "\n", "line 2: s t: percentile 10 after 50"},
		{"a quantile of three", metaLine + `{"kind":"latency","scenario":"s","target":"t","quantiles":[[50,1,2]]}` + "\n", "line 2: a quantile of 3 numbers"},
		{"a quantile of one", metaLine + `{"kind":"latency","scenario":"s","target":"t","quantiles":[[50]]}` + "\n", "line 2: a quantile of 1 numbers"},
		{"percentiles whose unit changes", metaLine + latency + strings.Replace(latency, `"us"`, `"ms"`, 1), `line 3: s latency is in "ms", before it was in "us"`},
		{"a note without a text", metaLine + `{"kind":"note"}` + "\n", "line 2: text is empty"},
		{"a complete last line of an unknown kind", metaLine + `{"kind":"fig"}`, "line 2: unknown kind"},
		{"a truncated first line", metaLine[:20], "line 1: unexpected end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, err := Read(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q (run %+v)", err, c.want, run)
			}
		})
	}
}

func TestATruncatedRecordKeepsItsCompleteLines(t *testing.T) {
	text := written(t, completeRun())
	lines := strings.SplitAfter(text, "\n")
	run, err := Read(strings.NewReader(lines[0] + lines[1] + lines[2][:len(lines[2])/2]))
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Figures) != 1 || len(run.Notes) != 1 || !strings.Contains(run.Notes[0].Text, "truncated in line 3") {
		t.Errorf("%+v", run)
	}
}

func TestALongLineIsReadCompletely(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	run, err := Read(strings.NewReader(metaLine + `{"kind":"note","text":"` + long + `"}`))
	if err != nil || len(run.Notes) != 1 || run.Notes[0].Text != long {
		t.Errorf("error %v", err)
	}
}

func TestTheQuartilesOfSamplesMatchHandComputedCases(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{7}, Spread{1, 7, 7, 7, 7, 7}},
		{[]float64{2, 1}, Spread{2, 1, 1.25, 1.5, 1.75, 2}},
		{[]float64{5, 1, 4, 2, 3}, Spread{5, 1, 2, 3, 4, 5}},
		{[]float64{1, 2, 3, 4}, Spread{4, 1, 1.75, 2.5, 3.25, 4}},
		{[]float64{10, 10, 10, 100}, Spread{4, 10, 10, 10, 32.5, 100}},
	} {
		before := slices.Clone(c.values)
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("%v became %v", before, c.values)
		}
	}
	if got := SpreadOf(nil); got.N != 0 || !math.IsNaN(got.Median) {
		t.Errorf("of no values: %+v", got)
	}
}

func TestTheQueriesOfARunReturnItsValuesTargetsAndFigures(t *testing.T) {
	run := &Run{}
	for round := 1; round <= 3; round++ {
		for _, target := range []string{"nginx", "queuegate", "direct", "haproxy"} {
			run.Figures = append(run.Figures, Figure{round, "a", target, "f", float64(10 * round), "us", Lower})
		}
		run.AddLatency(Latency{round, "b", "queuegate", "ms", []Quantile{{50, float64(round)}, {99, float64(round * round)}, {100, 100}}, 1})
	}
	run.Figures = append(run.Figures, Figure{0, "b", "queuegate", "g", 4, "B", Higher})

	if got := run.Values("a", "nginx", "f"); !slices.Equal(got, []float64{10, 20, 30}) {
		t.Errorf("values %v", got)
	}
	if m, ok := run.Median("a", "nginx", "f"); m != 20 || !ok {
		t.Errorf("median %v, %v", m, ok)
	}
	if m, ok := run.Median("a", "nginx", "g"); ok {
		t.Errorf("median of a figure that was not measured: %v", m)
	}
	if s := SpreadOf(run.Values("a", "nginx", "f")); s.Q1 != 15 || s.Q3 != 25 || s.Min != 10 || s.Max != 30 {
		t.Errorf("spread %+v", s)
	}
	if got := run.Percentiles("b"); !slices.Equal(got, []float64{50, 99, 100}) {
		t.Errorf("percentiles %v", got)
	}
	if got := run.Values("b", "queuegate", "p99"); !slices.Equal(got, []float64{1, 4, 9}) {
		t.Errorf("at percentile 99: %v", got)
	}
	if got := run.Scenarios(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("scenarios %v", got)
	}
	if got := run.Targets(""); !slices.Equal(got, []string{"direct", "queuegate", "haproxy", "nginx"}) {
		t.Errorf("targets %v", got)
	}
	if got := run.Targets("b"); !slices.Equal(got, []string{"queuegate"}) {
		t.Errorf("targets of b %v", got)
	}
	if got := run.FigureNames("b"); !slices.Equal(got, []string{"g"}) {
		t.Errorf("figures %v", got)
	}
	if unit, better := run.Unit("b", "g"); unit != "B" || better != Higher {
		t.Errorf("unit %q %q", unit, better)
	}
	if unit, better := run.Unit("b", "max"); unit != "ms" || better != Lower {
		t.Errorf("unit of a latency %q %q", unit, better)
	}
	if run.Rounds() != 3 {
		t.Errorf("%d rounds", run.Rounds())
	}
}

func TestAScenarioNameIsSplitIntoStemAndSize(t *testing.T) {
	for _, c := range []struct {
		name, stem string
		size       float64
		bytes, ok  bool
	}{
		{"keepalive-64", "keepalive", 64, false, true},
		{"keepalive-10k", "keepalive", 10000, false, true},
		{"download-100B", "download", 100, true, true},
		{"download-100MB", "download", 100e6, true, true},
		{"upload-4KiB", "upload", 4096, true, true},
		{"keepalive-64-limit-32", "keepalive-64-limit", 32, false, true},
		{"idle", "idle", 0, false, false},
		{"quota-100m", "quota-100m", 0, false, false},
		{"keepalive-0", "keepalive-0", 0, false, false},
		{"-5", "-5", 0, false, false},
	} {
		stem, size, bytes, ok := Size(c.name)
		if stem != c.stem || size != c.size || bytes != c.bytes || ok != c.ok {
			t.Errorf("%s: %s %v %v %v", c.name, stem, size, bytes, ok)
		}
	}
}

func TestScenariosOfAFamilyAreOrderedBySize(t *testing.T) {
	run := &Run{}
	for _, s := range []string{"k-1000", "d-1MB", "k-64", "k-1", "idle", "d-100B"} {
		run.Figures = append(run.Figures, Figure{1, s, "t", "f", 1, "", Neither})
	}
	got := run.Families(2)
	want := []Family{
		{"k", false, []float64{1, 64, 1000}, []string{"k-1", "k-64", "k-1000"}},
		{"d", true, []float64{100, 1e6}, []string{"d-100B", "d-1MB"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := run.Families(3); len(got) != 1 {
		t.Errorf("with three sizes: %+v", got)
	}
}

func TestTheTargetWithTheMostFiguresDeterminesTheOrderOfFigures(t *testing.T) {
	run := &Run{}
	for target, names := range map[string][]string{"direct": {"c", "d"}, "queuegate": {"a", "b", "c"}, "haproxy": {"c", "b", "a"}} {
		for _, name := range names {
			run.Figures = append(run.Figures, Figure{Scenario: "s", Target: target, Figure: name})
		}
	}
	if got := run.FigureNames("s"); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("figures %v", got)
	}
}
