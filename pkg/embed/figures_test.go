package embed

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
)

// page returns the page of a metrics handler.
func page(h http.Handler, fields ...string) string {
	req := httptest.NewRequest("GET", "/metrics", nil)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Body.String()
}

func TestRequestsAreCountedWithStatusSizesAndTag(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{Uncounted: []string{"/health"}, MetricsNames: "both", Identity: Identity{Service: "shop"}},
			func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("K-Proxy-Request") == "" {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte("12"))
				_, _ = io.WriteString(w, "345")
				// Over HTTP/1, io.Copy calls w.ReadFrom.
				_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("678")})
			})
		r.do("POST", "/", "body", "K-Proxy-Request", "activator", "Knative-Serving-Tag", "green")
		r.do("GET", "/health?deep", "")
		r.gate.wantOutcome(t, "served", 1)
		text := page(r.gate.Metrics())
		labels := `{http_request_method="POST",http_response_status_code="201",kn_route_tag="green",network_protocol_name="http",network_protocol_version="` +
			strings.TrimPrefix(protocol, "HTTP/") + `",otel_scope_name="go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",url_scheme="http"}`
		for _, line := range []string{
			`http_server_request_duration_seconds_count` + labels + ` 1`,
			`http_server_request_body_size_bytes_sum` + labels + ` 4`,
			`http_server_response_body_size_bytes_sum` + labels + ` 8`,
			`kn_serving_invocation_duration_seconds_count{http_response_status_code="201",otel_scope_name="knative.dev/serving/pkg/queue"} 1`,
			`queuegate_proxied_requests_total 1`,
			`queuegate_request_body_bytes_total 4`,
			`queuegate_response_body_bytes_total 8`,
			`queuegate_in_flight_requests 0`,
			`queuegate_concurrency_limit +Inf`,
			`service_name="shop",service_version="development"`,
			`revision_request_count{configuration_name="",container_name="queue-proxy"`,
			`go_goroutines `,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	})
}

// sample is the value in the line that begins with prefix.
func sample(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		}
	}
	return ""
}

func TestTheAutoscalerSeesTheRequestsInFlight(t *testing.T) {
	s := newStage()
	r := newRig(t, "HTTP/1.1", Config{ConcurrencyLimit: 1, QueueCapacity: 1, Uncounted: []string{"/health"}}, s.handle)
	first := r.begin("/", "K-Proxy-Request", "activator")
	testkit.Receive(t, "the first one", s.entered)
	second := r.begin("/")
	until(t, "one in the queue", func() bool { return r.gate.QueueDepth() == 1 })
	r.do("GET", "/health", "") // rejected, but not counted
	if all, proxied := r.gate.state().Counting.InFlight(); all != 2 || proxied != 1 {
		t.Errorf("%d in flight, %d of them proxied; want 2 and 1", all, proxied)
	}
	until(t, "a second with both", func() bool {
		text := page(r.gate.Stats(), "Accept", "text/plain")
		return sample(text, "queue_average_concurrent_requests{") == "2" && sample(text, "queue_average_proxied_concurrent_requests{") == "1"
	})
	close(s.leave)
	testkit.Receive(t, "answer", first)
	testkit.Receive(t, "answer", second)
}
