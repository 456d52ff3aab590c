package top

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
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

func sample(t *testing.T, offset time.Duration, text string) *Sample {
	t.Helper()
	s, err := read(strings.NewReader(text), time.Unix(1000, 0).Add(offset))
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
	// For 10 s, the gate serves 200 requests per second. Then, for 20 s, it serves 100
	// and rejects 5 requests per second.
	for i := 1; i <= 30; i++ {
		served, full := 200*min(i, 10)+100*max(0, i-10), 5*max(0, i-10)
		g.Add(sample(t, time.Duration(i)*time.Second, page(3, 2, served, full, "ready", "", 1)), nil)
	}
	r := g.Rates()
	if math.Abs(r.Requests-105) > 11 || math.Abs(r.Rejected-5) > 0.6 || r.Failed != 0 {
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

func TestReadinessIsUnknownBeforeTheFirstRead(t *testing.T) {
	g := &Gate{Source: Source{Name: "a"}}
	if row := Table([]*Gate{g}, 80)[1]; !strings.HasPrefix(row, "a    -  ") {
		t.Errorf("got %q", row)
	}
	g.Add(nil, errors.New("refused"))
	if row := Table([]*Gate{g}, 80)[1]; !strings.HasPrefix(row, "a    no ") {
		t.Errorf("got %q", row)
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
		{page(0, 0, 0, 0, "down", "refused", 1), nil, "web down (refused)"}, // first sample
		{page(0, 0, 0, 0, "ready", "", 1), nil, "ready"},
		{page(0, 0, 0, 0, "failing", "status", 4), nil, "web failing (status)"},
		{page(0, 0, 0, 0, "failing", "status", 4), nil, "web failing (status)"}, // cause kept
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

func TestLegacyMetricNamesAreReadAndPagesWithoutGateMetricsRejected(t *testing.T) {
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
	source := NewSource("x", server.URL)
	if _, err := source.Fetch(context.Background()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

// attributes matches the sequences that set terminal attributes.
var attributes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestTheViewFitsTheScreenAndHandlesKeys(t *testing.T) {
	m := NewModel(context.Background(), []Source{{Name: "web-1"}, {Name: strings.Repeat("long", 40)}}, nil, time.Second)
	m.width = 100
	for i := range 3 {
		m.update(fetched{m.gates[0], sample(t, time.Duration(i)*time.Second, page(i, 0, 100*i, 0, "ready", "", 1)), nil})
		m.update(fetched{m.gates[1], nil, errors.New("no route " + strings.Repeat("x", 200))})
	}
	for range 2 {
		for line := range strings.Lines(m.view()) {
			if n := len([]rune(attributes.ReplaceAllString(strings.TrimRight(line, "\n"), ""))); n > 100 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		m.update(key("\x1b[B"))
	}
	if view := m.view(); !strings.Contains(view, "no route") || !strings.Contains(view, "no response") || !strings.Contains(view, "2/10") {
		t.Errorf("got\n%s", view)
	}
	m.update(key("p"))
	m.update(fetched{m.gates[0], sample(t, 9*time.Second, page(7, 0, 900, 0, "ready", "", 1)), nil})
	if view := m.view(); !strings.Contains(view, "PAUSED") || strings.Contains(view, "7/10") {
		t.Errorf("got\n%s", view)
	}
	if quit, _ := m.update(key("q")); !quit {
		t.Error("q does not quit")
	}
	m.width = 20
	_ = m.view()
}

func TestTheReadinessCauseIsShownInAnyTerminalWidth(t *testing.T) {
	g := &Gate{Source: Source{Name: "web-7d9f8b6c5d-x2x4z"}}
	g.Add(sample(t, 0, page(12, 3, 0, 0, "down", "refused", 1)), nil)
	g.Add(sample(t, time.Second, page(12, 3, 123456, 1234, "down", "refused", 1)), nil)
	for _, c := range []struct{ width, lines int }{{80, 3}, {200, 2}} {
		lines := Table([]*Gate{g}, c.width)
		if last := lines[len(lines)-1]; len(lines) != c.lines || !strings.HasSuffix(last, "  web down (refused)") || !strings.Contains(lines[1], "    1234      0") {
			t.Errorf("%d columns: %q", c.width, lines)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > c.width {
				t.Errorf("%d columns: %d in %q", c.width, n, line)
			}
		}
	}
}

func TestLatencyCoversOnlyRequestsThatReachedTheContainer(t *testing.T) {
	histogram := func(name, labels string, counts map[string]int) string {
		text := "# TYPE " + name + " histogram\n"
		for _, bound := range slices.Sorted(maps.Keys(counts)) {
			text += fmt.Sprintf("%s_bucket{%sle=%q} %d\n", name, labels, bound, counts[bound])
		}
		return text + fmt.Sprintf("%s_sum{%s} 1\n%s_count{%s} %d\n", name, strings.TrimSuffix(labels, ","), name, strings.TrimSuffix(labels, ","), counts["+Inf"])
	}
	for name, text := range map[string]string{
		"current names": histogram("http_server_request_duration_seconds", `http_response_status_code="200",`, map[string]int{"0.1": 900, "1": 1000, "10": 1000, "+Inf": 1000}),
		"legacy names":  histogram("revision_request_latencies", `response_code="200",`, map[string]int{"100": 900, "200": 900, "1000": 1000, "+Inf": 1000}),
	} {
		// 900 were rejected within 0.1 s.
		text += histogram("queuegate_unforwarded_duration_seconds", "", map[string]int{"0.1": 900, "1": 900, "10": 900, "+Inf": 900})
		var g Gate
		g.Add(sample(t, 0, "queuegate_in_flight_requests 0\n"), nil)
		g.Add(sample(t, time.Second, "queuegate_in_flight_requests 0\n"+text), nil)
		if r := g.Rates(); math.Abs(r.P50-0.55) > 1e-9 {
			t.Errorf("%s: p50 %v s, want 0.55 s between the bounds 0.1 s and 1 s", name, r.P50)
		}
	}
	tunnel := histogram("http_server_request_duration_seconds", `http_response_status_code="101",`, map[string]int{"10": 0, "+Inf": 1})
	if s := sample(t, 0, "queuegate_in_flight_requests 0\n"+tunnel); len(s.Latency) != 0 {
		t.Errorf("the duration of a tunnel is a latency: %v", s.Latency)
	}
}

func TestTopChartsConcurrencyWithoutQueuedRequests(t *testing.T) {
	m := NewModel(context.Background(), []Source{{Name: "web"}}, nil, time.Second)
	m.update(fetched{m.gates[0], sample(t, 0, page(10, 14, 0, 0, "ready", "", 1)), nil})
	view := m.view()
	for _, want := range []string{"concurrency  █ max 10\n", "queue        █ max 14\n", "limit        █ max 10, now 10\n"} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not in\n%s", want, view)
		}
	}
}

func TestFiguresOfAGateThatDoesNotRespondAreNotShown(t *testing.T) {
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
	m.width = 100
	removed := m.gates[0]
	m.update(key("\x1b[B"))
	m.update(fetched{m.gates[1], sample(t, 0, page(7, 0, 1, 0, "ready", "", 1)), nil})
	m.update(listed{[]Source{{Name: "b"}, {Name: "c"}}, nil})
	if view := m.view(); len(m.gates) != 2 || m.gates[m.selected].Name != "b" || !strings.Contains(view, "7/10") || !strings.Contains(view, "\nlimit ") {
		t.Errorf("got\n%s", view)
	}
	if removed.ctx.Err() == nil {
		t.Error("the removed pod is still read")
	}
	m.update(listed{nil, errors.New("kubectl: no cluster")})
	if view := m.view(); len(m.gates) != 2 || !strings.Contains(view, "no cluster") {
		t.Errorf("got\n%s", view)
	}
	m.update(listed{nil, nil})
	m.update(key("\x1b[B"))
	if view := m.view(); !strings.Contains(view, "no pod is running") {
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
	rejected, failed := 0, 1 // an unknown outcome counts as failed
	for _, class := range classes {
		switch class {
		case "refused":
			rejected++
		case "failed":
			failed++
		}
	}
	if rejected == 0 || failed == 1 {
		t.Fatalf("%d outcomes are refused, %d failed", rejected, failed-1)
	}
	if r := g.Rates(); r.Requests != float64(len(classes)+1) || r.Rejected != float64(rejected) || r.Failed != float64(failed) {
		t.Errorf("%v requests, %v refused, %v failed per second; want %d, %d, %d",
			r.Requests, r.Rejected, r.Failed, len(classes)+1, rejected, failed)
	}
}
