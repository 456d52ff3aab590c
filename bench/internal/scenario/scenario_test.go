package scenario

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

func TestScenariosHaveUniqueNames(t *testing.T) {
	seen := map[string]bool{Everything: true}
	for _, s := range All() {
		if seen[s.Name] || s.Name == "" || s.About == "" || s.Run == nil && s.Measure == nil && s.Load.Kind == "" {
			t.Errorf("scenario %q (%s) is incomplete or its name is not unique", s.Name, s.About)
		}
		seen[s.Name] = true
	}
	for _, s := range All() {
		for _, g := range s.Groups {
			if seen[g] {
				t.Errorf("group %q has the name of a scenario", g)
			}
		}
	}
}

func TestScenariosAreSelectedByNameByGroupOrAll(t *testing.T) {
	names := func(list ...string) []string {
		selected, err := Select(list)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range selected {
			out = append(out, s.Name)
		}
		return out
	}
	if got := names("idle", "keepalive-64"); !slices.Equal(got, []string{"keepalive-64", "idle"}) {
		t.Errorf("two names gave %v", got)
	}
	if got := names("quota"); !slices.Equal(got, []string{"quota-100m", "quota-250m"}) {
		t.Errorf("a group gave %v", got)
	}
	if got := names("awake"); !slices.Equal(got, []string{"open-2000-awake", "chunk-delay-awake"}) {
		t.Errorf("the group awake gave %v", got)
	}
	if got := names(Everything); len(got) != len(All()) {
		t.Errorf("all gave %d of %d", len(got), len(All()))
	}
	if got := names("open-connections"); !slices.Equal(got, []string{"open-connections-64", "open-connections-256", "open-connections-1000", "open-connections-4000", "open-connections-10000"}) {
		t.Errorf("a group of growing sizes gave %v", got)
	}
	if got := names(); slices.Contains(got, "open-connections-64") || !slices.Contains(got, "open-connections-10000") {
		t.Errorf("no names gave %v", got)
	}
	if got := names("awake"); !slices.Equal(got, []string{"open-2000-awake", "chunk-delay-awake"}) {
		t.Errorf("the group awake gave %v", got)
	}
	if got := names(); slices.Contains(got, "open-2000-awake") || !slices.Contains(got, "open-2000") {
		t.Errorf("no names gave %v", got)
	}
	if got := names(); slices.Contains(got, "queued-16") || !slices.Contains(got, "keepalive-64") {
		t.Errorf("no names gave %v", got)
	}
	if _, err := Select([]string{"idle", "nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("an unknown name gave %v", err)
	}
}

func fake(order *[]string, run func(*Run) error) Scenario {
	return Scenario{Name: "fake", About: "fake", Added: true, Run: func(r *Run) error {
		*order = append(*order, r.target.Name)
		return run(r)
	}}
}

func runFakes(t *testing.T, ctx context.Context, rounds int, scenarios []Scenario, names ...string) (*sample.Run, error) {
	t.Helper()
	var targets []*target.Target
	for _, n := range names {
		targets = append(targets, &target.Target{Name: n, Does: []string{target.HTTP}})
	}
	var out bytes.Buffer
	w := sample.NewWriter(&out)
	if err := w.Meta(sample.Meta{}); err != nil {
		t.Fatal(err)
	}
	err := RunAll(ctx, scenarios, targets, Options{Rounds: rounds, Duration: time.Second, Files: 20_000}, w,
		func(int, string, time.Duration) {})
	run, readErr := sample.Read(&out)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return run, err
}

func TestTheOrderOfTargetsRotatesFromRoundToRound(t *testing.T) {
	var order []string
	if _, err := runFakes(t, context.Background(), 4, []Scenario{fake(&order, func(*Run) error { return nil })}, "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	if want := "a b c b c a c a b a b c"; strings.Join(order, " ") != want {
		t.Fatalf("got %v, want %s", order, want)
	}
}

func TestAddedLatencyIsTheDifferenceFromDirectInTheSameRound(t *testing.T) {
	var order []string
	values := map[string]float64{"direct": 10, "a": 15}
	run, err := runFakes(t, context.Background(), 2, []Scenario{fake(&order, func(r *Run) error {
		v := values[r.target.Name] * float64(r.round) * 1e3
		r.latency(&load.Result{Quantiles: [][2]float64{{50, v}, {90, v}, {99, 2 * v}}, Count: 3})
		return nil
	})}, "direct", "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Values("fake", "a", "added_p50"); !slices.Equal(got, []float64{5, 10}) {
		t.Errorf("added p50 is %v", got)
	}
	if got := run.Values("fake", "a", "added_p99"); !slices.Equal(got, []float64{10, 20}) {
		t.Errorf("added p99 is %v", got)
	}
	if got := run.FigureNames("fake"); len(got) != 2 {
		t.Errorf("figures are %v", got)
	}
}

func TestANoteReportsThatAddedLatencyLacksAMeasurementOfDirect(t *testing.T) {
	var order []string
	run, err := runFakes(t, context.Background(), 2, []Scenario{fake(&order, func(r *Run) error {
		if r.target.Name != "direct" || r.round == 2 {
			r.latency(&load.Result{Quantiles: [][2]float64{{50, 1e3}, {99, 2e3}}, Count: 3})
		}
		return nil
	})}, "direct", "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Values("fake", "a", "added_p50"); !slices.Equal(got, []float64{0}) {
		t.Errorf("added p50 is %v, want that of the second round", got)
	}
	if len(run.Notes) != 1 || run.Notes[0].Scenario != "fake" || !strings.Contains(run.Notes[0].Text, "no added latency") {
		t.Errorf("notes are %v", run.Notes)
	}
}

func TestABenchmarkTargetThatFailsGetsANoteAndTheRunContinues(t *testing.T) {
	var order []string
	run, err := runFakes(t, context.Background(), 2, []Scenario{fake(&order, func(r *Run) error {
		if r.target.Name == "a" {
			return errors.New("no luck")
		}
		r.figure("x", 1, "", sample.Lower)
		return nil
	})}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Notes) != 1 || run.Notes[0].Target != "a" || !strings.Contains(run.Notes[0].Text, "no luck") {
		t.Errorf("notes are %v", run.Notes)
	}
	if got := run.Values("fake", "b", "x"); len(got) != 2 {
		t.Errorf("the other target has %v", got)
	}
}

func TestATargetThatCannotRunAScenarioIsSkippedWithANote(t *testing.T) {
	var order []string
	s := fake(&order, func(*Run) error { return nil })
	s.Needs = []string{target.Limit}
	many := fake(&order, func(*Run) error { return nil })
	many.Name, many.Connections = "many", 50_000
	run, err := runFakes(t, context.Background(), 1, []Scenario{s, many}, "a")
	if err != nil || len(order) != 0 {
		t.Fatalf("order %v, %v", order, err)
	}
	if len(run.Notes) != 2 || !strings.Contains(run.Notes[0].Text, "limit") || !strings.Contains(run.Notes[1].Text, "open files") {
		t.Errorf("notes are %v", run.Notes)
	}
}

func TestACancelledContextEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var order []string
	_, err := runFakes(t, ctx, 3, []Scenario{fake(&order, func(*Run) error { cancel(); return nil })}, "a", "b")
	if !errors.Is(err, context.Canceled) || len(order) != 1 {
		t.Fatalf("order %v, %v", order, err)
	}
}

func TestTheEstimateOfTheRemainingTimeImproves(t *testing.T) {
	for _, c := range []struct{ elapsed, done, total, want time.Duration }{
		{0, 0, time.Minute, time.Minute},
		{10 * time.Second, 10 * time.Second, time.Minute, 50 * time.Second},
		{20 * time.Second, 10 * time.Second, time.Minute, 100 * time.Second},
		{time.Minute, time.Minute, time.Minute, 0},
	} {
		if got := remainingTime(c.elapsed, c.done, c.total); got != c.want {
			t.Errorf("after %v for %v of %v: %v, want %v", c.elapsed, c.done, c.total, got, c.want)
		}
	}
}

func TestFailuresAreListedMostFrequentFirst(t *testing.T) {
	got := failures(&load.Result{Rejected: map[int]int64{503: 3, 502: 9}, Errors: map[string]int64{"cut": 5}, Unfinished: 1})
	if got != "status 502, cut, status 503, no response" {
		t.Fatalf("got %q", got)
	}
}

func TestRoundsWithSimilarFailureRatesHaveTheSameNote(t *testing.T) {
	for share, want := range map[float64]float64{0.011: 0.01, 0.1: 0.01, 0.12: 0.1, 0.5: 0.1, 0.6: 0.5, 0.91: 0.9, 1: 0.9} {
		if got := failedAtLeast(share); got != want {
			t.Errorf("of a share of %v: %v, want %v", share, got, want)
		}
	}
}
