package top

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// page returns a part of a gate's metrics page.
func page(inFlight, queued, served, full int, state, cause string, changes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "queuegate_in_flight_requests %d\nqueuegate_concurrency_limit 10\nkn_serving_queue_depth %d\nqueuegate_queue_capacity 100\n", inFlight, queued)
	fmt.Fprintf(&b, "queuegate_request_outcomes_total{outcome=\"served\"} %d\nqueuegate_request_outcomes_total{outcome=\"queue-full\"} %d\n", served, full)
	for _, s := range []string{"down", "failing", "ready"} {
		n := 0
		if s == state {
			n = 1
		}
		fmt.Fprintf(&b, "queuegate_container_state{container=\"web\",state=%q} %d\n", s, n)
	}
	fmt.Fprintf(&b, "queuegate_container_transitions_total{cause=%q,container=\"web\",state=%q} %d\n", cause, state, changes)
	b.WriteString("# TYPE http_server_request_duration_seconds histogram\n")
	for _, bound := range []struct {
		le    string
		share int
	}{{"0.001", 50}, {"0.01", 98}, {"0.1", 100}, {"+Inf", 100}} {
		fmt.Fprintf(&b, "http_server_request_duration_seconds_bucket{code=\"200\",le=%q} %d\n", bound.le, served*bound.share/100)
	}
	fmt.Fprintf(&b, "http_server_request_duration_seconds_sum{code=\"200\"} 1\nhttp_server_request_duration_seconds_count{code=\"200\"} %d\n", served)
	return b.String()
}

func sample(t *testing.T, at time.Duration, text string) *Sample {
	t.Helper()
	s, err := read(strings.NewReader(text), time.Unix(1000, 0).Add(at))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRatesAndLatenciesCoverTheLastTenSeconds(t *testing.T) {
	var g Gate
	g.Add(sample(t, 0, page(0, 0, 0, 0, "ready", "", 1)), nil)
	if r := g.Rates(); r.Requests != 0 || !math.IsNaN(r.P50) {
		t.Errorf("with one sample: %+v", r)
	}
	for i := 1; i <= 30; i++ { // 200 a second at first, later 100 and 5 rejections
		served, full := 200*min(i, 10)+100*max(0, i-10), 5*max(0, i-10)
		g.Add(sample(t, time.Duration(i)*time.Second, page(3, 2, served, full, "ready", "", 1)), nil)
	}
	r := g.Rates()
	if math.Abs(r.Requests-105) > 11 || math.Abs(r.Refused-5) > 0.6 || r.Failed != 0 {
		t.Errorf("got %+v", r)
	}
	if math.Abs(r.P50-0.001) > 1e-6 || r.P99 < 0.01 || r.P99 > 0.1 {
		t.Errorf("p50 %v, p99 %v", r.P50, r.P99)
	}
	g.Add(sample(t, 31*time.Second, page(0, 0, 1, 0, "ready", "", 1)), nil)
	if len(g.Samples) != 1 {
		t.Error("counts from before a restart are used")
	}
}

func TestReadinessIsShownWithItsCause(t *testing.T) {
	var g Gate
	if ready, text := g.Readiness(); ready || text != "…" {
		t.Error(ready, text)
	}
	for i, c := range []struct {
		page string
		err  error
		want string
	}{
		{page(0, 0, 0, 0, "down", "refused", 1), nil, "web down (refused)"}, // the only cause so far
		{page(0, 0, 0, 0, "ready", "", 1), nil, "ready"},
		{page(0, 0, 0, 0, "failing", "status", 4), nil, "web failing (status)"},
		{page(0, 0, 0, 0, "failing", "status", 4), nil, "web failing (status)"}, // no change
		{page(0, 0, 0, 0, "ready", "", 5) + "queuegate_draining 1\n", nil, "draining"},
		{"", errors.New("refused"), "no response since " + time.Unix(1004, 0).Format(time.TimeOnly)},
	} {
		var s *Sample
		if c.err == nil {
			s = sample(t, time.Duration(i)*time.Second, c.page)
		}
		g.Add(s, c.err)
		if ready, text := g.Readiness(); text != c.want || ready != (c.want == "ready") {
			t.Errorf("%d: %v, %q; want %q", i, ready, text, c.want)
		}
	}
}

func TestLegacyNamesAreReadAndOtherPagesRejected(t *testing.T) {
	s := sample(t, 0, "queuegate_in_flight_requests 1\nqueuegate_concurrency_limit +Inf\nrevision_queue_depth{pod_name=\"x\"} 4\n"+
		"# TYPE revision_request_latencies histogram\nrevision_request_latencies_bucket{le=\"5\"} 2\nrevision_request_latencies_bucket{le=\"+Inf\"} 3\n"+
		"revision_request_latencies_sum 1\nrevision_request_latencies_count 3\n")
	if s.Queued != 4 || !math.IsInf(s.Limit, 1) || s.Latency[0.005] != 2 || s.Latency[math.Inf(1)] != 3 {
		t.Errorf("got %+v", s)
	}
	if _, err := read(strings.NewReader("up 1\n"), time.Now()); err == nil || !strings.Contains(err.Error(), "not the metrics of a gate") {
		t.Error(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	source := At("x", server.URL)
	if _, err := source.Fetch(context.Background()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

func TestTheViewFitsTheScreenAndHandlesKeys(t *testing.T) {
	m := NewModel(context.Background(), []Source{{Name: "web-1"}, {Name: strings.Repeat("long", 40)}}, nil, time.Second)
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	for i := range 3 {
		m.Update(fetched{m.gates[0], sample(t, time.Duration(i)*time.Second, page(i, 0, 100*i, 0, "ready", "", 1)), nil})
		m.Update(fetched{m.gates[1], nil, errors.New("no route " + strings.Repeat("x", 200))})
	}
	for range 2 {
		for line := range strings.Lines(m.View()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		m.Update(tea.KeyMsg{Type: tea.KeyDown})
	}
	if view := m.View(); !strings.Contains(view, "no route") || !strings.Contains(view, "no response") || !strings.Contains(view, "2/10") {
		t.Errorf("got\n%s", view)
	}
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("p")})
	m.Update(fetched{m.gates[0], sample(t, 9*time.Second, page(7, 0, 900, 0, "ready", "", 1)), nil})
	if view := m.View(); !strings.Contains(view, "PAUSED") || strings.Contains(view, "7/10") {
		t.Errorf("got\n%s", view)
	}
	if _, quit := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")}); quit == nil {
		t.Error("q does not quit")
	}
	m.Update(tea.WindowSizeMsg{Width: 20, Height: 5})
	_ = m.View()
}

func TestAGateWithoutAResponseShowsNoOldFigures(t *testing.T) {
	g := &Gate{Source: Source{Name: "web"}}
	for i := range 3 {
		g.Add(sample(t, time.Duration(i)*time.Second, page(3, 2, 100*i, 0, "ready", "", 1)), nil)
	}
	if line := Table([]*Gate{g}, 200)[1]; !strings.Contains(line, "3/10") || !strings.Contains(line, " yes ") {
		t.Error(line)
	}
	g.Add(nil, errors.New("refused"))
	if line := Table([]*Gate{g}, 200)[1]; strings.Contains(line, "/10") || !strings.Contains(line, " no ") || !strings.Contains(line, "no response since") || g.Rates().Requests != 0 {
		t.Error(line)
	}
	g.Add(sample(t, 9*time.Second, page(4, 0, 200, 0, "ready", "", 1)+"process_start_time_seconds 5\n"), nil)
	if len(g.Samples) != 1 {
		t.Errorf("%d samples of another process", len(g.Samples)-1)
	}
	if line := Table([]*Gate{g}, 200)[1]; !strings.Contains(line, "4/10") {
		t.Error(line)
	}
}

func TestAddedAndRemovedPodsAreShown(t *testing.T) {
	m := NewModel(context.Background(), []Source{{Name: "a"}, {Name: "b"}}, func(context.Context) ([]Source, error) { return nil, nil }, time.Second)
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	gone := m.gates[0]
	m.Update(tea.KeyMsg{Type: tea.KeyDown})
	m.Update(fetched{m.gates[1], sample(t, 0, page(7, 0, 1, 0, "ready", "", 1)), nil})
	m.Update(listed{[]Source{{Name: "b"}, {Name: "c"}}, nil})
	if view := m.View(); len(m.gates) != 2 || m.gates[m.selected].Name != "b" || !strings.Contains(view, "7/10") || !strings.Contains(view, "\nlimit ") {
		t.Errorf("got\n%s", view)
	}
	if _, next := m.Update(tick{gone}); next != nil {
		t.Error("the removed pod is still read")
	}
	m.Update(listed{nil, errors.New("kubectl: no cluster")})
	if view := m.View(); len(m.gates) != 2 || !strings.Contains(view, "no cluster") {
		t.Errorf("got\n%s", view)
	}
	m.Update(listed{nil, nil})
	m.Update(tea.KeyMsg{Type: tea.KeyDown})
	if view := m.View(); !strings.Contains(view, "no pod is running") {
		t.Errorf("got\n%s", view)
	}
}

func TestOutcomesAreCountedByClass(t *testing.T) {
	outcomes := func(n int) string {
		lines := "queuegate_in_flight_requests 0\n"
		for _, name := range append(slices.Collect(maps.Keys(classes)), "of-a-later-version") {
			lines += fmt.Sprintf("queuegate_request_outcomes_total{outcome=%q} %d\n", name, n)
		}
		return lines
	}
	var g Gate
	g.Add(sample(t, 0, outcomes(0)), nil)
	g.Add(sample(t, time.Second, outcomes(1)), nil)
	refused, failed := 0, 1 // an unknown outcome counts as failed
	for _, class := range classes {
		switch class {
		case "refused":
			refused++
		case "failed":
			failed++
		}
	}
	if refused == 0 || failed == 1 {
		t.Fatalf("%d outcomes are refused, %d failed", refused, failed-1)
	}
	if r := g.Rates(); r.Requests != float64(len(classes)+1) || r.Refused != float64(refused) || r.Failed != float64(failed) {
		t.Errorf("%v requests, %v refused, %v failed per second; want %d, %d, %d",
			r.Requests, r.Refused, r.Failed, len(classes)+1, refused, failed)
	}
}
