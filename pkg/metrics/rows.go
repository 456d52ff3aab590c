package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Kind is the type of a metric in Prometheus.
type Kind string

// The kinds that the gate uses.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric describes a metric family to scrapers and in the documentation.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string
	Labels []string
	Help   string
}

// row is one metric of the page.
type row struct {
	Metric
	names   Names  // the generations of Knative's names that include this metric
	source  source // the metric is omitted if this source is nil
	initial initial
	read    func(*page)
}

// initial reports whether a series with these label values is shown at 0. This is
// needed for alerts and autoscalers: in Prometheus, a series that first appears with
// the value 1 has no increase. Other series are omitted at 0 to save memory in
// Prometheus.
type initial func(labels []string) bool

// Values of initial. Gauges are always shown.
var (
	fromStart   initial = func([]string) bool { return true }
	whenCounted initial = func([]string) bool { return false }

	// alertedOutcomes selects the series of initialOutcomes. Alerts read the outcomes
	// that are logged as warnings or errors.
	alertedOutcomes initial = func(labels []string) bool { return slices.Contains(initialOutcomes, labels[0]) }
	// alertedTransitions selects the changes to the states down and failing, with any
	// cause. An alert reads them.
	alertedTransitions initial = func(labels []string) bool { return labels[1] == "down" || labels[1] == "failing" }
)

// initialOutcomes are the outcomes whose counters are shown at 0. They are the successes,
// and the outcomes that are logged as warnings or errors.
var initialOutcomes = func() (names []string) {
	for _, o := range gate.Outcomes() {
		if o.Class() == gate.ClassSucceeded || o.Meaning().Level >= gate.Warn {
			names = append(names, o.String())
		}
	}
	return names
}()

// source identifies a source of values in CollectorConfig.
type source uint8

const (
	fixed source = iota // a source that is always present
	requests
	admission
	upstream
	http2
	tls
	dropped
	readiness
	settings
	engine
)

// Instrumentation scopes that Knative's metrics have in OpenTelemetry.
const (
	otelHTTP  = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	otelQueue = "knative.dev/serving/pkg/queue"
)

// gateContainer is the name of the gate's container in Knative.
const gateContainer = "queue-proxy"

// Labels of several metrics.
var (
	httpLabels = []string{
		"http_request_method", "http_response_status_code", "kn_route_tag",
		"network_protocol_name", "network_protocol_version", "otel_scope_name", "url_scheme",
	}
	legacyLabels = []string{
		"namespace_name", "service_name", "configuration_name", "revision_name", "pod_name", "container_name",
		"response_code", "response_code_class", "route_tag",
	}
	legacyIdentity, legacyCode = legacyLabels[:6], legacyLabels[:8]
)

// rows are all metrics of the page, in the order of docs/metrics.md. To update that
// file, run go test ./pkg/metrics -run Docs -update.
var rows = []row{
	{Metric{"kn_serving_invocation_duration_seconds", Histogram, "seconds", []string{"http_response_status_code", "otel_scope_name"},
		"Time from the first byte of a request to the user container until the end of the response. Requests that never reached the container are not included."},
		Current, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(codeKey, invocation) {
				p.histogram(r, durationsCurrent, true, k.codeText(), otelQueue)
			}
		}},
	{Metric{"kn_serving_queue_depth", Gauge, "requests", nil,
		"Requests that wait for a slot now. Requests in flight are not counted."},
		Current, admission, fromStart, func(p *page) { p.number(float64(p.admission.QueueDepth)) }},
	{Metric{"http_server_request_duration_seconds", Histogram, "seconds", httpLabels,
		"Time from the arrival of a request to the end of its response, including the time in the queue."},
		Current, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(wholeKey, server) {
				p.histogram(r, durationsCurrent, true, p.httpValues(k)...)
			}
		}},
	{Metric{"http_server_request_body_size_bytes", Histogram, "bytes", httpLabels,
		"Size of request bodies, as received from the client."},
		Current, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(wholeKey, request) {
				p.histogram(r, sizesCurrent, true, p.httpValues(k)...)
			}
		}},
	{Metric{"http_server_response_body_size_bytes", Histogram, "bytes", httpLabels,
		"Size of response bodies, as sent to the client."},
		Current, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(wholeKey, response) {
				p.histogram(r, sizesCurrent, true, p.httpValues(k)...)
			}
		}},
	{Metric{"http_client_request_duration_seconds", Histogram, "seconds", httpLabels,
		"Time from the first byte of a request to the user container until the head of its response or, without one, until the end of the request."},
		Current, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(wholeKey, client) {
				p.histogram(r, durationsCurrent, true, p.httpValues(k)...)
			}
		}},
	{Metric{"http_server_active_requests", Gauge, "requests", nil,
		"Requests in flight and queued now."},
		Current, admission, fromStart, func(p *page) { p.number(float64(p.admission.InFlight + p.admission.QueueDepth)) }},
	{Metric{targetInfo, Gauge, "", []string{
		"service_name", "service_instance_id", "service_version", "container_name",
		"k8s_namespace_name", "k8s_pod_name", "kn_service_name", "kn_configuration_name", "kn_revision_name"},
		"Identity of the gate, and the attributes of OTEL_RESOURCE_ATTRIBUTES as further labels. Always 1."},
		Current, fixed, fromStart, func(p *page) {
			id := &p.Identity
			p.number(1, cmp.Or(id.ServiceName, id.Service, id.Configuration, id.Revision, p.Target["service.name"]), id.Pod, p.Build.Version, gateContainer,
				id.Namespace, id.Pod, id.Service, id.Configuration, id.Revision)
		}},

	{Metric{"revision_request_count", Counter, "requests", legacyLabels,
		"Requests that have ended."},
		Legacy, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(tagCodeKey, server) {
				p.number(float64(r.count), p.legacyTag(k)...)
			}
		}},
	{Metric{"revision_request_latencies", Histogram, "milliseconds", legacyLabels,
		"Time from the arrival of a request to the end of its response, including the time in the queue."},
		Legacy, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(tagCodeKey, server) {
				p.histogram(r, durationsLegacy, false, p.legacyTag(k)...)
			}
		}},
	{Metric{"revision_app_request_count", Counter, "requests", legacyCode,
		"Requests that reached the user container and have ended."},
		Legacy, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(codeKey, invocation) {
				p.number(float64(r.count), p.legacyCode(k)...)
			}
		}},
	{Metric{"revision_app_request_latencies", Histogram, "milliseconds", legacyCode,
		"Time from the first byte of a request to the user container until the end of the response."},
		Legacy, requests, whenCounted, func(p *page) {
			for k, r := range p.sumBy(codeKey, invocation) {
				p.histogram(r, durationsLegacy, false, p.legacyCode(k)...)
			}
		}},
	{Metric{"revision_queue_depth", Gauge, "requests", legacyIdentity,
		"Requests that wait for a slot now. Requests in flight are not counted."},
		Legacy, admission, fromStart, func(p *page) { p.number(float64(p.admission.QueueDepth), p.legacy()...) }},

	{Metric{"queuegate_request_outcomes_total", Counter, "requests", []string{"outcome"},
		"Requests that have ended, by outcome; served and tunnelled requests got the response of the user container."},
		always, requests, alertedOutcomes, func(p *page) {
			for _, o := range gate.Outcomes() {
				p.number(float64(p.Requests.outcomes[o].Load()), o.String())
			}
		}},
	{Metric{"queuegate_responses_total", Counter, "requests", []string{"code_class"},
		"Requests that have ended, by class of the status."},
		always, requests, fromStart, func(p *page) {
			var counts [len(classNames)]uint64
			for i := range p.series {
				counts[p.series[i].key.class()] += p.series[i].server.count
			}
			for class, n := range counts {
				p.number(float64(n), classNames[class])
			}
		}},
	{Metric{"queuegate_proxied_requests_total", Counter, "requests", nil,
		"Requests proxied by the activator that have ended."},
		always, requests, fromStart, func(p *page) { p.number(float64(p.Requests.proxied.Load())) }},
	{Metric{"queuegate_request_body_bytes_total", Counter, "bytes", nil,
		"Bytes of request bodies received from clients, of requests that have ended."},
		always, requests, fromStart, func(p *page) { p.number(p.sum(request)) }},
	{Metric{"queuegate_response_body_bytes_total", Counter, "bytes", nil,
		"Bytes of response bodies sent to clients, of requests that have ended."},
		always, requests, fromStart, func(p *page) { p.number(p.sum(response)) }},
	{Metric{"queuegate_queue_wait_seconds", Histogram, "seconds", nil,
		"Time from the arrival of a request until it got its slot, or until its end if it got none."},
		always, requests, fromStart, func(p *page) { p.single(p.Requests.queueWait) }},
	{Metric{"queuegate_unforwarded_duration_seconds", Histogram, "seconds", nil,
		"Time from the arrival of a request to its end, of requests that did not reach the user container."},
		always, requests, whenCounted, func(p *page) { p.single(p.Requests.unforwarded) }},
	{Metric{"queuegate_in_flight_requests", Gauge, "requests", nil,
		"Requests that hold a slot now."},
		always, admission, fromStart, func(p *page) { p.number(float64(p.admission.InFlight)) }},
	{Metric{"queuegate_queue_capacity", Gauge, "requests", nil,
		"Maximum number of requests that may wait for a slot."},
		always, admission, fromStart, func(p *page) { p.number(float64(p.admission.QueueCapacity)) }},
	{Metric{"queuegate_concurrency_limit", Gauge, "requests", nil,
		"Maximum number of requests in flight; +Inf is unlimited."},
		always, admission, fromStart, func(p *page) {
			p.number(cmp.Or(float64(p.admission.ConcurrencyLimit), math.Inf(1)))
		}},
	{Metric{"queuegate_cost_units", Gauge, "units", nil,
		"Units held by the requests in flight; no series without QUEUE_COST_LIMIT."},
		always, admission, fromStart, func(p *page) {
			if p.admission.CostLimit > 0 {
				p.number(float64(p.admission.CostUnits))
			}
		}},
	{Metric{"queuegate_cost_limit", Gauge, "units", nil,
		"Maximum number of units that requests in flight may hold; no series without QUEUE_COST_LIMIT."},
		always, admission, fromStart, func(p *page) {
			if p.admission.CostLimit > 0 {
				p.number(float64(p.admission.CostLimit))
			}
		}},
	{Metric{"queuegate_draining", Gauge, "", nil,
		"1 after a drain has begun, 0 before."},
		always, admission, fromStart, func(p *page) {
			v := 0.0
			if p.admission.Draining {
				v = 1
			}
			p.number(v)
		}},
	{Metric{"queuegate_engine_waiting", Gauge, "requests", nil,
		"Requests in the model server's own queue, according to its latest page (ENGINE_METRICS); 0 while queuegate_engine_silent is 1, and while the gate has no requests and therefore reads no page."},
		always, engine, fromStart, func(p *page) { p.number(p.engine.Waiting) }},
	{Metric{"queuegate_engine_queue_depth", Gauge, "requests", nil,
		"Requests that wait in the gate's queue or in the model server's: the whole queue of the pod."},
		always, engine, fromStart, func(p *page) { p.number(float64(p.admission.QueueDepth) + p.engine.Waiting) }},
	{Metric{"queuegate_engine_kv_usage", Gauge, "ratio", nil,
		"Used share of the model server's KV cache, by its page."},
		always, engine, fromStart, func(p *page) { p.number(p.engine.KV) }},
	{Metric{"queuegate_engine_silent", Gauge, "", nil,
		"1 while the model server's page has been invalid or missing for so long that only the limits of the gate apply, 0 otherwise."},
		always, engine, fromStart, func(p *page) {
			v := 0.0
			if p.engine.Silent {
				v = 1
			}
			p.number(v)
		}},
	{Metric{"queuegate_engine_pages_total", Counter, "pages", []string{"result"},
		"Pages of the model server that were requested, by result (success, failure)."},
		always, engine, whenCounted, func(p *page) { p.results(p.engine.Pages, p.engine.Failures) }},
	{Metric{"queuegate_settings_generation", Gauge, "", nil,
		"Changes of live settings applied since the start, from annotations of the pod and SETTINGS_FILE."},
		always, settings, fromStart, func(p *page) { p.number(float64(p.settings.Generation)) }},
	{Metric{"queuegate_settings_error", Gauge, "", []string{"error"},
		"1, with the first problem, while the latest live settings are invalid and the previous ones stay in effect; no series otherwise."},
		always, settings, fromStart, func(p *page) {
			if p.settings.Error != "" {
				p.number(1, firstProblem(p.settings.Error))
			}
		}},
	{Metric{"queuegate_upstream_open_connections", Gauge, "connections", nil,
		"Open connections to the user container, including idle ones."},
		always, upstream, fromStart, func(p *page) { p.number(float64(p.upstream.Open)) }},
	{Metric{"queuegate_upstream_idle_connections", Gauge, "connections", nil,
		"Open connections to the user container that no request uses."},
		always, upstream, fromStart, func(p *page) { p.number(float64(p.upstream.Idle)) }},
	{Metric{"queuegate_upstream_dials_total", Counter, "connections", nil,
		"Attempts to connect to the user container for requests."},
		always, upstream, fromStart, func(p *page) { p.number(float64(p.upstream.Dials)) }},
	{Metric{"queuegate_upstream_reuses_total", Counter, "requests", nil,
		"Requests sent on a connection that was already open."},
		always, upstream, fromStart, func(p *page) { p.number(float64(p.upstream.Reuses)) }},
	{Metric{"queuegate_upstream_replays_total", Counter, "requests", nil,
		"Requests that were retried because their connection was closed."},
		always, upstream, fromStart, func(p *page) { p.number(float64(p.upstream.Retries)) }},
	{Metric{"queuegate_container_state", Gauge, "", []string{"container", "state"},
		"1 for the state that the user container is in, 0 for the others."},
		always, readiness, fromStart, func(p *page) {
			for i, c := range p.containers {
				for _, state := range p.Readiness.cfg.States {
					v := 0.0
					if state == c.State {
						v = 1
					}
					p.number(v, p.Readiness.cfg.Containers[i], state)
				}
			}
		}},
	{Metric{"queuegate_container_transitions_total", Counter, "transitions", []string{"container", "state", "cause"},
		"Changes of state of the user container, by the new state and the cause; the cause of a success is empty."},
		always, readiness, alertedTransitions, func(p *page) {
			for i, counts := range p.Readiness.transitions {
				for k, to := range append(slices.Clip(p.Readiness.cfg.Transitions), otherTransition) {
					p.number(float64(counts[k].Load()), p.Readiness.cfg.Containers[i], to.State, to.Cause)
				}
			}
		}},
	{Metric{"queuegate_probe_attempts_total", Counter, "probes", []string{"container"},
		"Readiness checks of the user container."},
		always, readiness, fromStart, func(p *page) {
			for i, c := range p.containers {
				p.number(float64(c.Attempts), p.Readiness.cfg.Containers[i])
			}
		}},
	{Metric{"queuegate_probe_connections_total", Counter, "probes", []string{"container"},
		"Readiness checks for which the user container accepted a connection."},
		always, readiness, fromStart, func(p *page) {
			for i, c := range p.containers {
				p.number(float64(c.Reached), p.Readiness.cfg.Containers[i])
			}
		}},
	{Metric{"queuegate_probe_duration_seconds", Histogram, "seconds", []string{"container"},
		"Duration of readiness checks, whatever their result."},
		always, readiness, fromStart, func(p *page) {
			for i, h := range p.Readiness.probes {
				p.single(h, p.Readiness.cfg.Containers[i])
			}
		}},
	{Metric{"queuegate_http2_client_connections", Gauge, "connections", nil,
		"Open connections of clients over HTTP/2."},
		always, http2, fromStart, func(p *page) { p.number(float64(p.http2.Connections)) }},
	{Metric{"queuegate_http2_faults_total", Counter, "faults", []string{"kind"},
		"Faults of peers over HTTP/2 for which the gate reset a stream or closed a connection, by kind."},
		always, http2, whenCounted, func(p *page) {
			for _, kind := range slices.Sorted(maps.Keys(p.http2.Errors)) {
				p.number(float64(p.http2.Errors[kind]), kind)
			}
		}},
	{Metric{"queuegate_tls_certificate_expiry_timestamp_seconds", Gauge, "seconds", nil,
		"Expiry of the certificate in use, as Unix time; 0 while there is none."},
		always, tls, fromStart, func(p *page) {
			end := 0.0
			if !p.tls.NotAfter.IsZero() {
				end = float64(p.tls.NotAfter.Unix())
			}
			p.number(end)
		}},
	{Metric{"queuegate_tls_certificate_loads_total", Counter, "loads", []string{"result"},
		"New certificates that were found, by the result of loading them (success, failure)."},
		always, tls, whenCounted, func(p *page) { p.results(p.tls.Reloads, p.tls.ReloadFailures) }},
	{Metric{"queuegate_tls_handshakes_total", Counter, "handshakes", []string{"result"},
		"Handshakes on the TLS port that have ended, by result (success, failure)."},
		always, tls, whenCounted, func(p *page) { p.results(p.tls.Handshakes, p.tls.HandshakeFailures) }},
	{Metric{"queuegate_dropped_log_lines_total", Counter, "lines", []string{"log"},
		"Log lines that were dropped because they could not be rendered or written, or because their reader was too slow. The label log is request for the request log and gate for the gate's own log."},
		always, dropped, whenCounted, func(p *page) {
			p.number(float64(p.dropped.RequestLines), "request")
			p.number(float64(p.dropped.GateLines), "gate")
		}},
	{Metric{"queuegate_dropped_spans_total", Counter, "spans", nil,
		"Spans that were dropped because the collector was too slow."},
		always, dropped, whenCounted, func(p *page) { p.number(float64(p.dropped.Spans)) }},
	{Metric{"queuegate_build_info", Gauge, "", []string{"version", "commit", "go_version"},
		"Version of the binary. Always 1."},
		always, fixed, fromStart, func(p *page) { p.number(1, p.Build.Version, p.Build.Commit, p.Build.GoVersion) }},
}
