package metrics

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
)

// fullConfig returns a configuration in which every source is set.
func fullConfig(names Names) CollectorConfig {
	return CollectorConfig{
		Names:    names,
		Identity: Identity{Namespace: "shop", Service: "web", Configuration: "web-cfg", Revision: "web-00001", Pod: "web-00001-abc"},
		Build:    Build{Version: "v1.2.3", Commit: "0123456789ab", GoVersion: "go1.26"},
		Requests: NewRequests(),
		Readiness: NewReadiness(ReadinessConfig{
			Containers:  []string{"web", "sidecar"},
			States:      []string{"unknown", "down", "failing", "ready"},
			Transitions: []Transition{{"ready", ""}, {"down", "refused"}, {"failing", "timeout"}},
			Snapshot: func() []gate.ContainerState {
				return []gate.ContainerState{{State: "ready", Attempts: 12, Reached: 10}, {State: "down", Attempts: 3}}
			},
		}),
		Admission: func() gate.AdmissionStats {
			return gate.AdmissionStats{InFlight: 5, QueueDepth: 2, QueueCapacity: 50, ConcurrencyLimit: 5, CostUnits: 700, CostLimit: 1000, Draining: true}
		},
		Upstream: func() gate.UpstreamStats {
			return gate.UpstreamStats{Open: 6, Idle: 1, Dials: 9, Reuses: 41, Retries: 1}
		},
		HTTP2: func() gate.HTTP2Stats {
			return gate.HTTP2Stats{Connections: 2, Errors: map[string]int64{"rapid-reset": 4, "frame-size": 1}}
		},
		TLS: func() gate.TLSStats {
			return gate.TLSStats{NotAfter: time.Unix(1800000000, 0), Reloads: 3, ReloadFailures: 1, Handshakes: 50, HandshakeFailures: 2}
		},
		Settings: func() gate.SettingsStats {
			return gate.SettingsStats{Generation: 3, Error: "queuegate.dev/timeout=\"0\": want whole seconds, 1 or more\nand more"}
		},
		Engine: func() gate.EngineStats {
			return gate.EngineStats{Waiting: 4, KV: 0.75, Pages: 20, Failures: 1}
		},
		Dropped: func() Dropped { return Dropped{RequestLines: 7, GateLines: 6, Spans: 5} },
	}
}

// busy counts at least one event in every metric.
func busy(cfg *CollectorConfig) {
	for _, x := range []gate.Record{
		{
			Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 200, Proxied: true, ResponseBody: 5000, Arrived: 0,
			Admitted: 20 * time.Microsecond, Forwarded: 200 * time.Microsecond, Responded: 2200 * time.Microsecond, Ended: 3200 * time.Microsecond,
		}, {
			Method: []byte("POST"), Protocol: "HTTP/2.0", Encrypted: true, Status: 404, RouteTag: []byte("green"), DefaultRoute: []byte("false"),
			HasDefaultRoute: true, RequestBody: 300, ResponseBody: 9,
			Admitted: 1500 * time.Millisecond, Forwarded: 1500 * time.Millisecond, Responded: 1530 * time.Millisecond, Ended: 1540 * time.Millisecond,
		},
		{Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 503, Outcome: gate.QueueFull, HasDefaultRoute: true, Ended: 30 * time.Microsecond},
		{Method: []byte("BREW"), Protocol: "HTTP/1.0", Status: 722, Forwarded: 1, Ended: 200 * time.Second},
	} {
		x.Outcome = cmp.Or(x.Outcome, gate.Served)
		cfg.Requests.Observe(&x, untraced)
	}
	cfg.Readiness.Changed(0, Transition{"ready", ""})
	cfg.Readiness.Changed(0, Transition{"never", "seen"})
	cfg.Readiness.Changed(1, Transition{"down", "refused"})
	cfg.Readiness.Changed(7, Transition{"down", "refused"})
	cfg.Readiness.Probed(0, 2*time.Millisecond)
	cfg.Readiness.Probed(-1, 2*time.Millisecond)
}

func gather(t *testing.T, g prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
	}
	return byName
}

// pedantic returns a registry with the gate's metrics. The registry returns an error if
// Collect sends a metric that Describe has not announced.
func pedantic(t *testing.T, cfg CollectorConfig) prometheus.Gatherer {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(NewCollector(cfg)); err != nil {
		t.Fatal(err)
	}
	return registry
}

func asText(t *testing.T, families map[string]*dto.MetricFamily) string {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if _, err := expfmt.MetricFamilyToText(&b, families[name]); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestTheMetricsPageWithCurrentAndLegacyNamesEqualsTheGoldenFile(t *testing.T) {
	cfg := fullConfig(Both)
	busy(&cfg)
	testkit.Golden(t, "page.txt", asText(t, gather(t, pedantic(t, cfg))))
}

func TestTheNamesSettingSelectsTheGenerationsOfMetricNames(t *testing.T) {
	for _, names := range []Names{0, Current, Legacy, Both} {
		cfg := fullConfig(names)
		busy(&cfg)
		got := gather(t, pedantic(t, cfg))
		for i := range rows {
			f := &rows[i]
			want := f.names&cmp.Or(names, Current) != 0
			if _, has := got[f.Name]; has != want {
				t.Errorf("names %d: %s is there: %t, want %t", names, f.Name, has, want)
			}
		}
	}
}

func TestTheMetricNamesSettingIsCurrentLegacyOrBoth(t *testing.T) {
	for s, want := range map[string]Names{"current": Current, "legacy": Legacy, "both": Both} {
		if got, err := ParseNames(s); got != want || err != nil {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	if _, err := ParseNames("Both"); err == nil || !strings.Contains(err.Error(), `"Both"`) {
		t.Errorf("Both: %v", err)
	}
}

func TestTheMetricsPageShowsSomeSeriesFromTheStartAndOthersOnceCounted(t *testing.T) {
	cfg := fullConfig(Both)
	cfg.HTTP2 = func() gate.HTTP2Stats { return gate.HTTP2Stats{Errors: map[string]int64{"frame-size": 0, "resets": 3}} }
	cfg.Dropped = func() Dropped { return Dropped{GateLines: 1} }
	cfg.Requests.Rejected(gate.HeadTimeout)
	text := asText(t, gather(t, pedantic(t, cfg)))
	for _, line := range []string{
		`http_server_active_requests 7`,
		`queuegate_request_outcomes_total{outcome="served"} 0`,
		`queuegate_request_outcomes_total{outcome="queue-full"} 0`,
		`queuegate_request_outcomes_total{outcome="head-timeout"} 1`,
		`queuegate_responses_total{code_class="5xx"} 0`,
		`queuegate_queue_wait_seconds_count 0`,
		`queuegate_container_transitions_total{cause="refused",container="sidecar",state="down"} 0`,
		`queuegate_container_state{container="web",state="failing"} 0`,
		`queuegate_probe_duration_seconds_count{container="web"} 0`,
		`queuegate_http2_faults_total{kind="resets"} 3`,
		`queuegate_dropped_log_lines_total{log="gate"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, series := range []string{
		`queuegate_request_outcomes_total{outcome="client-gone"}`,
		`queuegate_http2_faults_total{kind="frame-size"}`,
		`queuegate_dropped_log_lines_total{log="request"}`,
		`queuegate_dropped_spans_total`,
		`queuegate_container_transitions_total{cause="other",container="web",state="other"}`,
		`http_server_request_duration_seconds_count`,
		`revision_request_count{`,
	} {
		if strings.Contains(text, "\n"+series) {
			t.Errorf("a line %s, which has not counted yet", series)
		}
	}
}

func TestMetricsWithoutASourceAreNotShown(t *testing.T) {
	got := gather(t, pedantic(t, CollectorConfig{Names: Both}))
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"queuegate_build_info", "target_info"}) {
		t.Errorf("%v", names)
	}
}

func TestAnUnlimitedConcurrencyIsShownAsInfinite(t *testing.T) {
	cfg := fullConfig(Current)
	cfg.Admission = func() gate.AdmissionStats { return gate.AdmissionStats{} }
	if text := asText(t, gather(t, pedantic(t, cfg))); !strings.Contains(text, "\nqueuegate_concurrency_limit +Inf\n") {
		t.Error("no line queuegate_concurrency_limit +Inf")
	}
}

func TestAServiceNameOverridesTheRevision(t *testing.T) {
	for name, want := range map[string]string{"": "web", "named": "named"} {
		cfg := fullConfig(Current)
		cfg.Identity.ServiceName = name
		info := gather(t, pedantic(t, cfg))["target_info"]
		for _, label := range info.Metric[0].Label {
			if label.GetName() == "service_name" && label.GetValue() != want {
				t.Errorf("%q: target_info has service_name %q", name, label.GetValue())
			}
		}
		if len(info.Metric[0].Label) != 9 {
			t.Errorf("%d labels", len(info.Metric[0].Label))
		}
	}
}

func TestResourceAttributesAreLabelsOfTargetInfo(t *testing.T) {
	cfg := fullConfig(Current)
	cfg.Target = map[string]string{
		"team": "a,b", "deployment.environment.name": "prod", "1st": "y", "a.b": "2", "a_b": "1", "weird-//key": "x", "_x": "z", "__reserved__": "r", "end.": "e",
		"k8s.pod.name": "other", "service_name": "other", "": "lost", "._": "lost", "bad\xff": "\xff",
	}
	got := map[string]string{}
	for _, label := range gather(t, pedantic(t, cfg))["target_info"].Metric[0].Label {
		got[label.GetName()] = label.GetValue()
	}
	for name, want := range map[string]string{
		"team": "a,b", "deployment_environment_name": "prod", "key_1st": "y", "a_b": "1;2", "weird_key": "x", "_x": "z", "_reserved_": "r", "end_": "e",
		"k8s_pod_name": cfg.Identity.Pod, "service_name": "web", "bad_": "\uFFFD",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if len(got) != 9+9 {
		t.Errorf("%d labels: %q", len(got), got)
	}
}

func TestAResourceAttributeNamesTheServiceIfNothingElseDoes(t *testing.T) {
	cfg := fullConfig(Current)
	cfg.Identity = Identity{Namespace: "shop"}
	cfg.Target = map[string]string{"service.name": "attribute"}
	if text := asText(t, gather(t, pedantic(t, cfg))); !strings.Contains(text, `service_name="attribute"`) {
		t.Error("target_info has no such service_name")
	}
}

func TestIdentitiesThatAreNotUTF8DoNotBreakThePage(t *testing.T) {
	cfg := fullConfig(Both)
	cfg.Identity.Namespace, cfg.Build.Version = "\xff", "\xfe"
	gather(t, pedantic(t, cfg))
}

// legacyLint has the Knative names from OpenCensus that promlint criticizes.
var legacyLint = []string{
	`revision_app_request_count: counter metrics should have "_total" suffix`,
	`revision_app_request_count: non-histogram and non-summary metrics should not have "_count" suffix`,
	`revision_request_count: counter metrics should have "_total" suffix`,
	`revision_request_count: non-histogram and non-summary metrics should not have "_count" suffix`,
}

func TestPromlintFindsNothingButTheLegacyNames(t *testing.T) {
	for names, exceptions := range map[Names][]string{Current: nil, Legacy: legacyLint, Both: legacyLint} {
		cfg := fullConfig(names)
		busy(&cfg)
		all := gather(t, newRegistry(NewCollector(cfg)))
		problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(all))).Lint()
		if err != nil {
			t.Fatal(err)
		}
		shown := 30 // the Go runtime and the process have at least 30 metrics
		for i := range rows {
			if rows[i].names&names != 0 {
				shown++
			}
		}
		if len(all) < shown {
			t.Errorf("names %d: only %d metrics", names, len(all))
		}
		var found []string
		for _, p := range problems {
			found = append(found, p.Metric+": "+p.Text)
		}
		slices.Sort(found)
		if !slices.Equal(found, exceptions) {
			t.Errorf("names %d: promlint found:\n%s", names, strings.Join(found, "\n"))
		}
	}
}

func TestTheMetricsPageHasLegacyNamesInTextAndOpenMetricsFormat(t *testing.T) {
	cfg := fullConfig(Both)
	busy(&cfg)
	h := PageHandler(NewCollector(cfg), nil)
	const text, openMetrics = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"
	for accept, want := range map[string]string{
		"": text, "*/*": text, "text/plain": text,
		"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3": openMetrics,
	} {
		response := ask(t, h, "GET", "/metrics", http.Header{"Accept": {accept}})
		body := read(t, response)
		if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || !strings.HasPrefix(kind, want) {
			t.Errorf("Accept %q: %d, %s", accept, response.StatusCode, kind)
		}
		kind := "counter"
		if want == openMetrics {
			kind = "unknown" // in OpenMetrics a counter without the suffix _total is unknown
			if !strings.HasSuffix(body, "\n# EOF\n") {
				t.Errorf("Accept %q: no end", accept)
			}
		}
		for _, line := range []string{
			"\n# TYPE revision_request_count " + kind + "\n", "\nrevision_request_count{", "\nrevision_app_request_count{",
			"\nqueuegate_upstream_dials_total 9", "\ngo_goroutines ", "\nprocess_resident_memory_bytes ",
		} {
			if !strings.Contains(body, line) {
				t.Errorf("Accept %q: no %q", accept, line)
			}
		}
	}
}

func TestNamesInTheQueryRestrictTheMetricsPage(t *testing.T) {
	h := PageHandler(NewCollector(fullConfig(Current)), nil)
	for query, want := range map[string][]string{
		"name[]=queuegate_in_flight_requests":                           {"queuegate_in_flight_requests"},
		"name[]=queuegate_in_flight_requests&name[]=queuegate_draining": {"queuegate_draining", "queuegate_in_flight_requests"},
		"name[]=go_goroutines&name[]=queuegate_draining":                {"go_goroutines", "queuegate_draining"},
		"name[]=process_open_fds":                                       {"process_open_fds"},
		"name[]=nothing":                                                nil,
	} {
		var names []string
		for line := range strings.Lines(read(t, ask(t, h, "GET", "/metrics?"+query, nil))) {
			if name, _, _ := strings.Cut(line, " "); name != "#" {
				names = append(names, name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", query, names, want)
		}
	}
}

func TestScrapersThatAskForProtobufGetNativeHistograms(t *testing.T) {
	cfg := fullConfig(Current)
	busy(&cfg)
	h := PageHandler(NewCollector(cfg), nil)
	response := ask(t, h, "GET", "/metrics", http.Header{
		"Accept": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;q=0.4"},
	})
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	native := 0
	for {
		var f dto.MetricFamily
		err := decoder.Decode(&f)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.Metric {
			if m.Histogram == nil || !strings.HasSuffix(f.GetName(), "duration_seconds") {
				continue
			}
			native++
			n := m.Histogram.GetZeroCount()
			for _, k := range buckets(m.Histogram) {
				n += uint64(k)
			}
			if m.Histogram.Schema == nil || n != m.Histogram.GetSampleCount() {
				t.Errorf("%s: %v", f.GetName(), m.Histogram)
			}
		}
	}
	if native < 8 {
		t.Errorf("%d histograms", native)
	}
}

func TestThePageIsServedOnlyUnderMetrics(t *testing.T) {
	h := PageHandler(NewCollector(CollectorConfig{}), nil)
	for _, path := range []string{"/", "/metrics/", "/debug"} {
		if got := ask(t, h, "GET", path, nil).StatusCode; got != 404 {
			t.Errorf("%s: %d", path, got)
		}
	}
}

func TestPagesAreNotCompressed(t *testing.T) {
	h := PageHandler(NewCollector(fullConfig(Current)), nil)
	response := ask(t, h, "GET", "/metrics", http.Header{"Accept-Encoding": {"gzip, zstd"}})
	if got := response.Header.Get("Content-Encoding"); got != "" {
		t.Errorf("Content-Encoding: %s", got)
	}
}

func TestAFifthConcurrentScraperIsRejected(t *testing.T) {
	cfg := fullConfig(Current)
	inside, leave := make(chan bool), make(chan bool)
	var calls atomic.Int64
	cfg.Admission = func() gate.AdmissionStats {
		if calls.Inc() <= maxScrapes {
			inside <- true
			<-leave
		}
		return gate.AdmissionStats{}
	}
	h := PageHandler(NewCollector(cfg), nil)
	var all sync.WaitGroup
	for range maxScrapes {
		all.Go(func() {
			if got := ask(t, h, "GET", "/metrics", nil).StatusCode; got != 200 {
				t.Errorf("status %d", got)
			}
		})
		<-inside
	}
	if got := ask(t, h, "GET", "/metrics", nil).StatusCode; got != 503 {
		t.Errorf("the fifth: status %d, want 503", got)
	}
	close(leave)
	all.Wait()
}

func TestABrokenSourceOmitsOnlyItsMetricsAndIsReported(t *testing.T) {
	cfg := fullConfig(Current)
	cfg.Readiness.cfg.Containers = []string{"same", "same"}
	var failures []error
	response := ask(t, PageHandler(NewCollector(cfg), func(err error) { failures = append(failures, err) }), "GET", "/metrics", nil)
	if body := read(t, response); response.StatusCode != 200 || !strings.Contains(body, "\nkn_serving_queue_depth 2\n") {
		t.Errorf("%d\n%s", response.StatusCode, body)
	}
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "queuegate_container_state") {
		t.Errorf("failures %v", failures)
	}
}

func TestPagesCanBeRenderedWhileRequestsAreCounted(t *testing.T) {
	cfg := fullConfig(Both)
	h := PageHandler(NewCollector(cfg), func(err error) { t.Error(err) })
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				x := sample()
				x.Status, x.RouteTag = 200+i%30, []byte{byte('a' + g), byte('a' + i%9)}
				cfg.Requests.Observe(x, untraced)
				cfg.Readiness.Changed(g%2, Transition{"ready", ""})
			}
		})
	}
	for range 5 {
		if got := ask(t, h, "GET", "/metrics", nil).StatusCode; got != 200 {
			t.Errorf("status %d", got)
		}
	}
	all.Wait()
}

func BenchmarkPage(b *testing.B) {
	for name, accept := range map[string]string{"text": "text/plain", "protobuf": string(expfmt.NewFormat(expfmt.TypeProtoDelim))} {
		b.Run(name, func(b *testing.B) {
			cfg := fullConfig(Current)
			busy(&cfg)
			h := PageHandler(NewCollector(cfg), nil)
			b.ReportAllocs()
			for b.Loop() {
				r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
				r.Header.Set("Accept", accept)
				h.ServeHTTP(w, r)
				b.SetBytes(int64(w.Body.Len()))
			}
		})
	}
}

// stuck is a connection whose peer does not read.
type stuck struct {
	*httptest.ResponseRecorder
	writing chan<- bool
	free    <-chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writing <- true
	<-s.free
	return len(b), nil
}

func TestStalledScrapersDoNotBlockAnotherScraper(t *testing.T) {
	cfg := fullConfig(Current)
	h := PageHandler(NewCollector(cfg), nil)
	writing, free := make(chan bool), make(chan struct{})
	var all sync.WaitGroup
	for range 2 * maxScrapes {
		all.Go(func() {
			h.ServeHTTP(&stuck{httptest.NewRecorder(), writing, free}, httptest.NewRequest("GET", "/metrics", nil))
		})
		<-writing
	}
	if response := ask(t, h, "GET", "/metrics", nil); response.StatusCode != http.StatusOK {
		t.Errorf("another scraper got %d", response.StatusCode)
	}
	go func() {
		for range writing {
		}
	}()
	close(free)
	all.Wait()
	close(writing)
}
