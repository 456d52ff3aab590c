package e2e

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// figures scrapes a page in Prometheus' text format. Keys include the labels.
func figures(g *gate, addr string) map[string]float64 {
	g.t.Helper()
	c := dialAddr(g.t, addr)
	defer c.close()
	a := c.get("/metrics", "Accept: text/plain")
	if a.status != 200 {
		g.t.Fatalf("scraping %s: status %d", addr, a.status)
	}
	all := map[string]float64{}
	for line := range strings.Lines(a.body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			all[name] = n
		}
	}
	return all
}

func startObservedGate(t *testing.T, k *container, settings ...string) (g *gate, stats, page string) {
	t.Helper()
	sp, mp := freePort(t), freePort(t)
	g = startGate(t, k, append(settings, fmt.Sprintf("AUTOSCALER_METRICS_PORT=%d", sp), fmt.Sprintf("METRICS_PORT=%d", mp), "SERVING_POD=p")...)
	stats, page = fmt.Sprintf("127.0.0.1:%d", sp), fmt.Sprintf("127.0.0.1:%d", mp)
	g.awaitPorts(stats, page)
	return g, stats, page
}

func TestAnIdlePageHasAtMost170Series(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "SERVING_READINESS_PROBE="+`{"tcpSocket":{}}`)
	eventually(t, "the container is ready", func() bool {
		f := figures(g, page)
		if n := len(f); n > 170 {
			t.Fatalf("%d series", n)
		}
		return f[`queuegate_container_state{container="user-container",state="ready"}`] == 1
	})
	f := figures(g, page)
	if _, ok := f[`queuegate_request_outcomes_total{outcome="queue-full"}`]; !ok || len(f) < 100 {
		t.Errorf("%d series; with the outcome queue-full: %v", len(f), ok)
	}
}

func TestActiveRequestsCountRequestsInFlightAndQueued(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "CONTAINER_CONCURRENCY=1")
	for range 3 {
		dial(t, g).send(request("GET", "/"))
	}
	k.accept()
	eventually(t, "3 active requests", func() bool {
		f := figures(g, page)
		return f["http_server_active_requests"] == 3 && f["kn_serving_queue_depth"] == 2
	})
}

func TestTheStatCountsAllAndProxiedRequests(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, stats, page := startObservedGate(t, k)
	var clients []*client
	var peers []*peer
	for i := range 7 {
		c := dial(t, g)
		if i < 3 {
			c.send(request("GET", "/", "K-Proxy-Request: activator"))
		} else {
			c.send(request("GET", "/"))
		}
		clients = append(clients, c)
		peers = append(peers, k.accept())
	}
	const labels = `{destination_namespace="",destination_configuration="",destination_revision="",destination_pod="p"}`
	near := func(got, want float64) bool { return math.Abs(got-want) <= want/100 }
	eventually(t, "the autoscaler reads 7 requests, 3 of them proxied", func() bool {
		f := figures(g, stats)
		return near(f["queue_average_concurrent_requests"+labels], 7) && near(f["queue_average_proxied_concurrent_requests"+labels], 3)
	})
	for i, p := range peers {
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		clients[i].response("GET").is(200, "ok")
	}
	eventually(t, "the stat returns to zero", func() bool {
		return figures(g, stats)["queue_average_concurrent_requests"+labels] == 0
	})
	var f map[string]float64
	// A loop that does not respond within 100 ms counts as having no idle connections.
	eventually(t, "the page shows the idle connections", func() bool {
		f = figures(g, page)
		return f["queuegate_upstream_idle_connections"] == 7
	})
	for name, want := range map[string]float64{
		`queuegate_request_outcomes_total{outcome="served"}`: 7,
		`queuegate_in_flight_requests`:                       0,
		`queuegate_upstream_open_connections`:                7,
		`queuegate_upstream_idle_connections`:                7,
	} {
		if got, ok := f[name]; !ok || got != want {
			t.Errorf("%s = %v (there: %v), want %v", name, got, ok, want)
		}
	}
}

func TestHTTPMetricsHaveKnativesLabels(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	must(t, k.RespondAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
	port := freePort(t)
	g := startTLSGate(t, k, fmt.Sprintf("METRICS_PORT=%d", port), "UPSTREAM_PROTOCOL=http1")
	page := fmt.Sprintf("127.0.0.1:%d", port)
	g.awaitPorts(page)
	plain := dial(t, g.gate)
	plain.send(request("POST", "/", "Content-Length: 3", "Knative-Serving-Tag: green", "Knative-Serving-Default-Route: false") + "abc")
	plain.response("POST").is(200, "ok")
	dialTLS(t, g, nil).get("/").is(200, "ok")
	(<-h2Start(t, h2Client(t, nil), "http://"+g.addr+"/", "Knative-Serving-Default-Route: true")).is(t, 200, "ok")
	(<-h2Start(t, h2Client(t, g.config()), "https://"+g.secure+"/")).is(t, 200, "ok")
	brew := dial(t, g.gate)
	brew.send(request("BREW", "/"))
	brew.response("BREW").is(200, "ok")

	labels := func(method, tag, version, scheme string) string {
		return fmt.Sprintf(`{http_request_method=%q,http_response_status_code="200",kn_route_tag=%q,network_protocol_name="http",network_protocol_version=%q,`+
			`otel_scope_name="go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",url_scheme=%q}`, method, tag, version, scheme)
	}
	all := []string{
		labels("POST", "green", "1.1", "http"), labels("GET", "kn:disabled", "1.1", "https"), labels("GET", "kn:default", "2.0", "http"),
		labels("GET", "kn:disabled", "2.0", "https"), labels("_OTHER", "kn:disabled", "1.1", "http"),
	}
	var f map[string]float64
	eventually(t, "all are counted", func() bool {
		f = figures(g.gate, page)
		return f[`queuegate_request_outcomes_total{outcome="served"}`] == 5
	})
	for _, labels := range all {
		for _, name := range []string{
			"http_server_request_duration_seconds", "http_client_request_duration_seconds",
			"http_server_request_body_size_bytes", "http_server_response_body_size_bytes",
		} {
			if n := f[name+"_count"+labels]; n != 1 {
				t.Errorf("%s: %v, want 1", name+"_count"+labels, n)
			}
		}
		if n := f["http_server_response_body_size_bytes_sum"+labels]; n != 2 {
			t.Errorf("%v bytes of responses with %s, want 2", n, labels)
		}
		if leg, whole := f["http_client_request_duration_seconds_sum"+labels], f["http_server_request_duration_seconds_sum"+labels]; leg <= 0 || leg > whole {
			t.Errorf("%v s of %v s to the container with %s", leg, whole, labels)
		}
	}
	if n := f["http_server_request_body_size_bytes_sum"+all[0]]; n != 3 {
		t.Errorf("%v bytes of requests with %s, want 3", n, all[0])
	}
	if n := f[`kn_serving_invocation_duration_seconds_count{http_response_status_code="200",otel_scope_name="knative.dev/serving/pkg/queue"}`]; n != 5 {
		t.Errorf("%v invocations, want 5", n)
	}
	if _, ok := f["kn_serving_queue_depth"]; !ok {
		t.Error("no kn_serving_queue_depth")
	}
	for name := range f {
		if strings.Contains(name, "server_address") {
			t.Errorf("%s grows with what clients send", name)
		}
	}
}

func TestProbesAndUncountedPathsAreNotCounted(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "UNCOUNTED_PATHS=/healthz")
	c := dial(t, g)
	c.get("/", "K-Network-Probe: queue").is(200, "queue")
	for _, path := range []string{"/healthz", "/healthz?full", "/other"} {
		c.send(request("GET", path))
		p := k.accept()
		p.head()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.response("GET").is(200, "")
		p.close()
	}
	// The counted request is the last one, so any earlier request would already be
	// counted.
	eventually(t, "one request is counted", func() bool {
		return figures(g, page)[`queuegate_request_outcomes_total{outcome="served"}`] == 1
	})
}

func TestTheStatIsProtobufUnlessTheScraperAcceptsText(t *testing.T) {
	t.Parallel()
	g, stats, _ := startObservedGate(t, startContainer(t))
	a := dialAddr(t, stats).get("/metrics")
	a.field("Content-Type", "application/protobuf")
	if len(a.body) > 336 || !strings.HasPrefix(a.body, "\x0a\x01p") {
		t.Errorf("the stat is %q", a.body)
	}
	if got := dialAddr(t, stats).get("/").status; got != 404 {
		t.Errorf("another path got %d", got)
	}
	g.checkHealth()
}

func TestMetricsAreServedWhileDraining(t *testing.T) {
	t.Parallel()
	g, stats, page := startObservedGate(t, startContainer(t), "DRAIN_QUIET_SECONDS=600")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	figures(g, stats)
	figures(g, page)
}
