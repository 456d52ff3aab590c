package compare

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

var defaults = Options{DefaultThreshold, DefaultAlpha}

// steady returns five rounds whose values differ from v by at most one percent.
func steady(v float64) []float64 { return []float64{v, 1.01 * v, 0.99 * v, 1.005 * v, 0.995 * v} }

func judged(old, new []float64, better sample.Better, o Options) Change {
	return judge(old, new, better, MannWhitney(old, new), o)
}

func TestAFigureIsJudgedByNoiseAndThreshold(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new []float64
		better   sample.Better
		want     Verdict
	}{
		{"twice the cost", steady(10), steady(20), sample.Lower, Regressed},
		{"half the cost", steady(10), steady(5), sample.Lower, Improved},
		{"twice the yield", steady(10), steady(20), sample.Higher, Improved},
		{"half the yield", steady(10), steady(5), sample.Higher, Regressed},
		{"twice a figure without a better direction", steady(10), steady(20), sample.Neither, Changed},
		{"beyond the noise, within the threshold", steady(10), steady(10.4), sample.Lower, Same},
		{"exactly at the threshold", []float64{100, 100, 100, 100, 100}, []float64{105, 105, 105, 105, 105}, sample.Lower, Same},
		{"just beyond the threshold", []float64{100, 100, 100, 100, 100}, []float64{105.1, 105.1, 105.1, 105.1, 105.1}, sample.Lower, Regressed},
		{"a worse median within the noise", []float64{10, 20, 10, 20, 10}, []float64{20, 10, 20, 10, 20}, sample.Lower, Noise},
		{"the same", steady(10), steady(10), sample.Lower, Same},
		{"twice, in too few rounds to judge", steady(10)[:3], steady(20)[:3], sample.Lower, TooFew},
		{"from nothing to something", make([]float64, 5), []float64{1, 1, 1, 1, 1}, sample.Lower, Regressed},
		{"from something to nothing", []float64{1, 1, 1, 1, 1}, make([]float64, 5), sample.Lower, Improved},
		{"more of a negative cost", steady(-10), steady(-5), sample.Lower, Regressed},
		{"missing in the new run", steady(10), nil, sample.Lower, OnlyOld},
		{"missing in the old run", nil, steady(10), sample.Lower, OnlyNew},
	} {
		if got := judged(c.old, c.new, c.better, defaults); got.Verdict != c.want {
			t.Errorf("%s: %s (delta %v, p %v), want %s", c.name, got.Verdict, got.Delta, got.P, c.want)
		}
	}
	if got := judged(steady(10), steady(12), sample.Lower, Options{0.3, DefaultAlpha}); got.Verdict != Same {
		t.Errorf("with a threshold of 30 %%: %s", got.Verdict)
	}
	if got := judged(steady(10)[:3], steady(12)[:3], sample.Lower, Options{DefaultThreshold, 0.2}); got.Verdict != Regressed {
		t.Errorf("with an alpha of 0.2: %s", got.Verdict)
	}
	if got := judged([]float64{0}, []float64{-1}, sample.Lower, defaults); !math.IsInf(got.Delta, -1) {
		t.Errorf("from zero down: delta %v", got.Delta)
	}
}

// runOf returns a run with one figure. values and p99 have one element per round.
func runOf(values []float64, p99 []float64) *sample.Run {
	run := &sample.Run{Meta: sample.Meta{Version: 1, Started: time.Unix(0, 0).UTC()}}
	for i, v := range values {
		run.Figures = append(run.Figures, sample.Figure{Round: i + 1, Scenario: "s", Target: "queuegate", Figure: "cpu_per_request", Value: v, Unit: "us", Better: sample.Lower})
	}
	for i, v := range p99 {
		run.AddLatency(sample.Latency{Round: i + 1, Scenario: "s", Target: "queuegate", Unit: "us", Quantiles: []sample.Quantile{{50, 100}, {95, 100}, {99, v}, {100, v * float64(1+10*i)}}})
	}
	return run
}

func find(t *testing.T, r Result, figure string) Change {
	t.Helper()
	for _, c := range r.Changes {
		if c.Figure == figure {
			return c
		}
	}
	t.Fatalf("no %s in %+v", figure, r.Changes)
	return Change{}
}

func TestFiguresAndLatenciesOfTwoRunsAreCompared(t *testing.T) {
	r := Compare(runOf(steady(10), steady(200)), runOf(steady(10), steady(300)), defaults)
	if !r.Regressed() {
		t.Error("a p99 that is half as large again is no regression")
	}
	c := find(t, r, "latency_p99")
	if c.Verdict != Regressed || math.Abs(c.Delta-0.5) > 1e-9 || c.Unit != "us" || c.Scenario != "s" || c.Target != "queuegate" || c.Old.Median != 200 || c.New.Median != 300 {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "cpu_per_request"); c.Verdict != Same {
		t.Errorf("%+v", c)
	}
	r = Compare(runOf(steady(10), steady(200)), runOf(steady(9), steady(150)), defaults)
	if r.Regressed() || find(t, r, "cpu_per_request").Verdict != Improved {
		t.Errorf("an improvement: %+v", r.Changes)
	}
}

func TestTheLargestLatencyIsNeverARegression(t *testing.T) {
	old, new := runOf(nil, steady(10)), runOf(nil, steady(10))
	for i := range new.Figures {
		if new.Figures[i].Figure == "max" {
			old.Figures[i].Value, new.Figures[i].Value = 100, 10000
		}
	}
	r := Compare(old, new, defaults)
	if c := find(t, r, "latency_max"); c.Verdict != Changed || r.Regressed() {
		t.Errorf("%+v", c)
	}
}

func TestAFigureMissingFromOneOfTwoRunsIsShownButNotJudged(t *testing.T) {
	old, new := runOf(steady(10), nil), runOf(nil, steady(20))
	r := Compare(old, new, defaults)
	if find(t, r, "cpu_per_request").Verdict != OnlyOld || find(t, r, "latency_p99").Verdict != OnlyNew || r.Regressed() {
		t.Errorf("%+v", r.Changes)
	}
	new = runOf(steady(20), nil)
	for i := range new.Figures {
		new.Figures[i].Unit = "ms"
	}
	if c := find(t, Compare(old, new, defaults), "cpu_per_request"); c.Verdict != Units || c.Unit != "us, ms" {
		t.Errorf("%+v", c)
	}
}

func TestAFigureMeasuredOncePerRunIsJudgedByTheThresholdAlone(t *testing.T) {
	size := func(round int, v float64) *sample.Run {
		return &sample.Run{Figures: []sample.Figure{{Round: round, Scenario: "start", Target: "queuegate", Figure: "binary_size", Value: v, Unit: "MiB", Better: sample.Lower}}}
	}
	for _, c := range []struct {
		name       string
		round      int
		old, new   float64
		want       Verdict
		regression bool
	}{
		{"larger", 0, 10, 11, Regressed, true},
		{"a little larger", 0, 10, 10.4, Same, false},
		{"smaller", 0, 10, 9, Improved, false},
		{"larger, in a round", 1, 10, 11, TooFew, false},
	} {
		r := Compare(size(c.round, c.old), size(c.round, c.new), defaults)
		if got := find(t, r, "binary_size").Verdict; got != c.want || r.Regressed() != c.regression {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestTheComparisonOfTwoRunsShowsChangedFiguresVersionsAndOptions(t *testing.T) {
	old, new := runOf(steady(10), steady(200)), runOf(steady(12), steady(200))
	old.Meta.Machine.Kernel, new.Meta.Machine.Kernel = "6.1", "6.2"
	old.Meta.Options = map[string]string{"rounds": "5"}
	old.Meta.Versions, new.Meta.Versions = map[string]string{"nginx": "1", "go": "2"}, map[string]string{"nginx": "2", "go": "2"}
	r := Compare(old, new, defaults)
	want := `kernel: 6.1 -> 6.2
version of nginx: 1 -> 2
option rounds: 5 -> (none)

scenario  target     figure           unit  old       new       delta   p      verdict
s         queuegate  cpu_per_request  us    10 ±0.5%  12 ±0.5%  +20.0%  0.008  regressed

4 figures: 1 regressed, 0 improved, 0 changed; 3 same, 0 within noise, 0 with too few rounds to tell, 0 not comparable
`
	if got := r.text(false); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.text(true); !strings.Contains(got, "latency_p50") {
		t.Errorf("with all, no latency_p50:\n%s", got)
	}
}

func record(t *testing.T, name string, run *sample.Run) string {
	t.Helper()
	var b bytes.Buffer
	w := sample.NewWriter(&b)
	if err := w.Meta(run.Meta); err != nil {
		t.Fatal(err)
	}
	for _, f := range run.Figures {
		if err := w.Figure(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTheExitCodeReportsRegressionsAndUndecidedChanges(t *testing.T) {
	dir := t.TempDir()
	old := record(t, filepath.Join(dir, "old.jsonl"), runOf(steady(10), nil))
	worse := record(t, filepath.Join(dir, "worse.jsonl"), runOf(steady(11), nil))
	better := record(t, filepath.Join(dir, "better.jsonl"), runOf(steady(9), nil))
	few := record(t, filepath.Join(dir, "few.jsonl"), runOf(steady(20)[:2], nil))
	three := record(t, filepath.Join(dir, "three.jsonl"), runOf(steady(10)[:3], nil))
	tenfold := record(t, filepath.Join(dir, "tenfold.jsonl"), runOf(steady(100)[:3], nil))
	near := record(t, filepath.Join(dir, "near.jsonl"), runOf(steady(10.2)[:3], nil))
	empty := record(t, filepath.Join(dir, "empty.jsonl"), runOf(nil, nil))
	record(t, filepath.Join(dir, "run", sample.FileName), runOf(steady(11), nil))
	broken := filepath.Join(dir, "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		output string
	}{
		{"the same", []string{old, old}, 0, "0 regressed"},
		{"worse by ten percent", []string{old, worse}, 1, "regressed"},
		{"worse in a directory", []string{old, filepath.Join(dir, "run")}, 1, "regressed"},
		{"worse within the threshold", []string{"--threshold", "11", old, worse}, 0, "0 regressed"},
		{"worse, but alpha asks for more than five rounds can tell", []string{"--alpha", "0.001", old, worse}, 2, "at least 7 rounds"},
		{"better", []string{old, better}, 0, "1 improved"},
		{"twice, in too few rounds", []string{old, few}, 2, "1 with too few rounds"},
		{"ten times, in three rounds", []string{three, tenfold}, 2, "at least 5 rounds (--rounds 5)"},
		{"ten times, in three rounds, named in the table", []string{three, tenfold}, 2, "too few\n"},
		{"ten times, in three rounds, with an alpha that they reach", []string{"--alpha", "0.2", three, tenfold}, 1, "1 regressed"},
		{"within the threshold, in three rounds", []string{three, near}, 0, "1 with too few rounds"},
		{"one run", []string{old}, 2, "1 arguments"},
		{"three runs", []string{old, old, old}, 2, "3 arguments"},
		{"no such file", []string{old, filepath.Join(dir, "gone")}, 2, "gone"},
		{"not a record", []string{broken, old}, 2, "line 1"},
		{"nothing to compare", []string{empty, empty}, 2, "neither run holds a figure"},
		{"no threshold", []string{"--threshold", "0", old, worse}, 2, "--threshold is 0"},
		{"an alpha of one", []string{"--alpha", "1", old, worse}, 2, "--alpha is 1"},
		{"an unknown option", []string{"--beta", old, worse}, 2, "beta"},
		{"help", []string{"--help"}, 0, "usage: compare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if code := Main(c.args, &b); code != c.code || !strings.Contains(b.String(), c.output) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.output, &b)
			}
		})
	}
}
