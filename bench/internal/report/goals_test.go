package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/scenario"
)

// twoTargets returns a run of three rounds. In the rounds, the CPU of queuegate is 3, 1
// and 2 µs, and the CPU of haproxy is ten times as high. The p99 of the latency is 100 ms
// for queuegate and 300 ms for haproxy.
func twoTargets() *sample.Run {
	run := &sample.Run{Meta: sample.Meta{Version: 1}}
	for round, v := range []float64{3, 1, 2} {
		run.Figures = append(run.Figures,
			sample.Figure{Round: round + 1, Scenario: "s", Target: "queuegate", Figure: "cpu", Value: v, Unit: "us", Better: sample.Lower},
			sample.Figure{Round: round + 1, Scenario: "s", Target: "haproxy", Figure: "cpu", Value: 10 * v, Unit: "us", Better: sample.Lower},
			sample.Figure{Round: round + 1, Scenario: "s", Target: "queuegate", Figure: "zero", Unit: "us", Better: sample.Lower},
			sample.Figure{Round: round + 1, Scenario: "s", Target: "queuegate", Figure: "fair", Value: 0.9, Better: sample.Higher})
	}
	for target, v := range map[string]float64{"queuegate": 100, "haproxy": 300} {
		run.AddLatency(sample.Latency{Round: 1, Scenario: "s", Target: target, Unit: "ms", Quantiles: []sample.Quantile{{50, v / 2}, {99, v}}})
	}
	return run
}

func TestAGoalIsJudgedByTheMediansOfTheRun(t *testing.T) {
	for _, c := range []struct{ name, yaml, goal, measured, explanation, state string }{
		{"a median within its bound", "figure: cpu, unit: us, at_most: 2", "≤ 2 µs", "2.00 µs", "", "held"},
		{"a median beyond its bound", "figure: cpu, unit: us, at_most: 1.9", "≤ 1.9 µs", "2.00 µs", "", "missed"},
		{"another unit of the same dimension", "figure: cpu, unit: ns, at_most: 2000", "≤ 2,000 ns", "2,000 ns", "", "held"},
		{"a unit of another dimension", "figure: cpu, unit: MiB, at_most: 2000", "≤ 2,000 MiB", "–", `s queuegate cpu is measured in "µs", the goal is in "MiB"`, "unit unknown"},
		{"a stretch that is reached", "figure: cpu, unit: us, at_most: 3, stretch: 2", "≤ 3 µs", "2.00 µs", "", "held, stretch too"},
		{"a stretch that is not reached", "figure: cpu, unit: us, at_most: 3, stretch: 1", "≤ 3 µs", "2.00 µs", "", "held"},
		{"only a stretch, not reached", "figure: cpu, unit: us, stretch: 1", "", "2.00 µs", "", "stretch missed"},
		{"a ratio to another target", "figure: cpu, ratio_to: {target: haproxy}, at_most: 0.1", "≤ 0.1 ×", "0.100 ×", "2.00 µs / 20.0 µs", "held"},
		{"a percentile in another unit", "percentile: 99, unit: us, at_most: 30000", "≤ 30,000 µs", "100,000 µs", "", "missed"},
		{"a ratio of percentiles", "percentile: 99, ratio_to: {target: haproxy}, at_most: 0.4", "≤ 0.4 ×", "0.333 ×", "100 ms / 300 ms", "held"},
		{"a ratio to nothing", "figure: cpu, ratio_to: {figure: zero}, at_most: 1", "≤ 1 ×", "–", "not measured: s queuegate zero is 0 µs, nothing to divide by", "not measured"},
		{"a ratio across units of one dimension", "percentile: 50, ratio_to: {figure: cpu}, at_most: 1", "≤ 1 ×", "25,000 ×", "50.0 ms / 2.00 µs", "missed"},
		{"a ratio across dimensions", "figure: cpu, ratio_to: {figure: fair}, at_most: 1", "≤ 1 ×", "–", `s queuegate cpu is measured in "µs", s queuegate fair in ""`, "unit unknown"},
		{"a lower bound that is kept", "figure: fair, at_least: 0.9", "≥ 0.9", "0.900", "", "held"},
		{"a lower bound that is not kept", "figure: fair, at_least: 0.95", "≥ 0.95", "0.900", "", "missed"},
		{"a missing figure", "figure: gone, at_most: 1", "≤ 1", "–", "s queuegate gone: not measured", "not measured"},
		{"a ratio to a missing target", "figure: cpu, ratio_to: {target: nginx}, at_most: 1", "≤ 1 ×", "–", "s nginx cpu: not measured", "not measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			goals, err := ParseGoals([]byte("goals: [{what: w, scenario: s, " + c.yaml + "}]"))
			if err != nil {
				t.Fatal(err)
			}
			v := judgeGoals(twoTargets(), goals)[0]
			if v.Goal != c.goal || v.Measured != c.measured || v.Explanation != c.explanation || string(v.State) != c.state {
				t.Errorf("got  %q %q from %q: %q\nwant %q %q from %q: %q", v.Goal, v.Measured, v.Explanation, v.State, c.goal, c.measured, c.explanation, c.state)
			}
		})
	}
}

func TestTheSummaryCountsResultsAndMentionsTooFewRounds(t *testing.T) {
	goals, err := ParseGoals([]byte(`goals:
- {what: a, scenario: s, figure: cpu, at_most: 2}
- {what: b, scenario: s, figure: cpu, at_most: 1}
- {what: c, scenario: s, figure: cpu, stretch: 1}
- {what: d, scenario: s, figure: cpu, at_most: 3, stretch: 2}
- {what: e, scenario: s, figure: gone, at_most: 1}
- {what: f, scenario: s, figure: cpu, unit: MiB, at_most: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	run := twoTargets()
	want := "2 of 4 measured goals held, 2 not measured."
	if got := goalsLine(run, goals); got != want+" The goals require 5 rounds; this run had 3, so the verdicts are provisional." {
		t.Errorf("%q", got)
	}
	run.Figures[0].Round = 5
	if got := goalsLine(run, goals); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMistakesInGoalsAreReportedTogether(t *testing.T) {
	_, err := ParseGoals([]byte(`goals:
- {what: a, figure: f, at_most: 1}
- {what: b, scenario: s, at_most: 1}
- {what: c, scenario: s, figure: f, percentile: 50, at_most: 1}
- {what: d, scenario: s, figure: f}
- {what: e, scenario: s, figure: f, at_most: 1, at_least: 1}
- {what: f, scenario: s, percentile: 101, at_most: 1}
- {what: g, scenario: s, figure: f, ratio_to: {}, at_most: 1}
- {what: i, scenario: s, figure: f, ratio_to: {target: x}, unit: us, at_most: 1}
- {scenario: s, figure: f, at_most: 1}
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`goal 1 ("a"): the goal names no scenario`,
		`goal 2 ("b"): the goal must name either a figure or a percentile`,
		`goal 3 ("c"): the goal must name either a figure or a percentile`,
		`goal 4 ("d"): one of at_most, at_least and stretch must be given`,
		`goal 5 ("e"): at_most and at_least exclude each other`,
		`goal 6 ("f"): percentile of the goal is 101, must be within 0 to 100`,
		`goal 7 ("g"): ratio_to is the goal's own measure`,
		`goal 8 ("i"): unit is "us", but a ratio has none`,
		`goal 9 (""): what is empty`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestTheGoalsNameExistingScenarios(t *testing.T) {
	exists := func(name string) bool {
		return slices.ContainsFunc(scenario.All(), func(s scenario.Scenario) bool { return s.Name == name })
	}
	for _, g := range theGoals(t) {
		if !exists(g.Scenario) || g.RatioTo != nil && !exists(g.RatioTo.Scenario) {
			t.Errorf("%s: no such scenario", g.Description)
		}
	}
}

func TestAGoalWithAnUnknownFieldIsRejected(t *testing.T) {
	if _, err := ParseGoals([]byte("goals: [{what: w, scenario: s, figure: f, at_mots: 1}]")); err == nil || !strings.Contains(err.Error(), "at_mots") {
		t.Errorf("error %v", err)
	}
}

func TestReplacingTheBenchmarkSectionKeepsTheTextAroundIt(t *testing.T) {
	for _, c := range []struct{ name, before, after, complaint string }{
		{"an empty section", "a\n<!-- bench:begin --><!-- bench:end -->\nb\n", "a\n<!-- bench:begin -->\n\n| new |\n\n<!-- bench:end -->\nb\n", ""},
		{"a full one", "a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb", "a\n<!-- bench:begin -->\n\n| new |\n\n<!-- bench:end -->\nb", ""},
		{"one it wrote itself", "<!-- bench:begin -->\n\n| new |\n\n<!-- bench:end -->", "<!-- bench:begin -->\n\n| new |\n\n<!-- bench:end -->", ""},
		{"another marker beside it", "<!-- x:begin -->1<!-- x:end --><!-- bench:begin -->2<!-- bench:end -->", "<!-- x:begin -->1<!-- x:end --><!-- bench:begin -->\n\n| new |\n\n<!-- bench:end -->", ""},
		{"no section", "a\n", "a\n", "must have one <!-- bench:begin -->, followed by one <!-- bench:end -->"},
		{"no end", "<!-- bench:begin -->", "<!-- bench:begin -->", "must have one <!-- bench:begin -->, followed by one <!-- bench:end -->"},
		{"two sections", "<!-- bench:begin --><!-- bench:end --><!-- bench:begin --><!-- bench:end -->", "<!-- bench:begin --><!-- bench:end --><!-- bench:begin --><!-- bench:end -->", "must have one <!-- bench:begin -->, followed by one <!-- bench:end -->"},
		{"the end first", "<!-- bench:end --><!-- bench:begin -->", "<!-- bench:end --><!-- bench:begin -->", "must have one <!-- bench:begin -->, followed by one <!-- bench:end -->"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "README.md")
			if err := os.WriteFile(file, []byte(c.before), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, 0o640); err != nil { // the umask may have removed bits
				t.Fatal(err)
			}
			err := ReplaceSection(file, "bench", "| new |\n")
			if c.complaint == "" && err != nil || c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)) {
				t.Errorf("error %v, want %q", err, c.complaint)
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != c.after {
				t.Errorf("file %q, want %q (%v)", got, c.after, err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, want 0640 (%v)", info.Mode(), err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("%d files are left in the directory", len(entries))
			}
		})
	}
}
