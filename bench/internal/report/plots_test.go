package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

func overloaded(t *testing.T) *sample.Run {
	t.Helper()
	run, err := sample.ReadFile("testdata/overload.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// written writes the plots of a run. It returns a map from the file name of each plot to
// the words in the plot.
func written(t *testing.T, run *sample.Run) map[string][]string {
	t.Helper()
	names, err := WritePlots(filepath.Join(t.TempDir(), "a", "b"), run)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = textsOf(t, string(text))
	}
	return texts
}

// textsOf returns the texts of a picture, which must be well-formed XML without external
// references.
func textsOf(t *testing.T, text string) (texts []string) {
	t.Helper()
	if !strings.HasPrefix(text, `<svg xmlns="http://www.w3.org/2000/svg" width="720" height="`) {
		t.Errorf("begins with %.90q", text)
	}
	if found := regexp.MustCompile(`NaN|Inf|url\(|@import|href`).FindString(text); found != "" {
		t.Errorf("the picture holds %q", found)
	}
	if !strings.Contains(text, "prefers-color-scheme: dark") {
		t.Error("the picture has one set of colours")
	}
	d, in := xml.NewDecoder(strings.NewReader(text)), ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("the picture is not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			in = ""
			if slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == "class" && (a.Value == "label" || a.Value == "value") }) {
				in = e.Name.Local
			}
		case xml.CharData:
			if in == "text" {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			in = ""
		}
	}
}

// In the test data, the value of the second round is always the median. The p99 without
// load ("unloaded") is the p99 under load divided by the figure p99_beside_unloaded of
// the same round.
func TestPlotsShowTheMediansOfTheRun(t *testing.T) {
	got := written(t, overloaded(t))
	goodput := "queuegate, best 392 haproxy, best 353 queuegate, auto 382 queuegate, none 0"
	p99 := "queuegate, best 80.0 unloaded 20.0 haproxy, best 160 unloaded 20.0 queuegate, auto 100 unloaded 25.0"
	for name, want := range map[string]string{
		"overload-goodput.svg": goodput + " " + goodput,
		// The picture has two charts. At three times the capacity, some requests succeed
		// without a limit, so this chart has bars for "queuegate, none". At ten times the
		// capacity, none succeeds without a limit, so there are no such bars.
		"overload-p99.svg":      p99 + " queuegate, none 52,000 unloaded 26.0 " + p99,
		"overload-fairness.svg": "fair queue, alone 62.0 fair queue, flood 68.0 strict FIFO, alone 62.0 strict FIFO, flood 400 class 0, alone 64.0 class 0, flood 72.0",
	} {
		if text := strings.Join(got[name], " "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d plots, want 3", len(got))
	}
}

func TestAPlotWithoutFiguresIsNotWritten(t *testing.T) {
	run := overloaded(t)
	run.Figures = slices.DeleteFunc(run.Figures, func(f sample.Figure) bool { return strings.HasPrefix(f.Scenario, "collapse") })
	if got := written(t, run); len(got) != 1 || got["overload-fairness.svg"] == nil {
		t.Errorf("plots %v", got)
	}
}

func TestPlotsOfTheEngineCompareTheFrontsAtEachLoad(t *testing.T) {
	run, _ := madeUp(t)
	for _, f := range []sample.Figure{
		{Scenario: "engine-1", Figure: "goodput_preset", Value: 25},
		{Scenario: "engine-10", Figure: "goodput_preset", Value: 31},
		{Scenario: "engine-10", Figure: "goodput_none", Value: 9},
		{Scenario: "engine-10", Figure: "goodput_oracle_of_state", Value: 32},
		{Scenario: "engine-10", Figure: "first_token_p99_beside_unloaded_preset", Value: 1.2},
	} {
		f.Target, f.Round = gate, 1
		run.Figures = append(run.Figures, f)
	}
	got := written(t, run)
	for name, want := range map[string]string{
		"engine-goodput.svg":     "PRESET=vllm 25.0 PRESET=vllm 31.0 no limit 9.00 oracle 32.0",
		"engine-first-token.svg": "PRESET=vllm 1.20",
	} {
		if text := strings.Join(got[name], " "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, want)
		}
	}
}

func TestARunWithoutOverloadHasNoPlots(t *testing.T) {
	run, _ := madeUp(t)
	if names, err := WritePlots(t.TempDir(), run); err == nil || !strings.Contains(err.Error(), "collapse-3") {
		t.Errorf("%v, error %v", names, err)
	}
}
