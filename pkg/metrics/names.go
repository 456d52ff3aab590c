package metrics

import "fmt"

// Names is which generation of Knative's metric names is shown.
type Names uint8

// The generations. What Knative has no name for is always shown.
const (
	Current Names = 1 << iota
	Legacy        // of its OpenCensus era
	Both    = Current | Legacy
	always  = Names(0)
)

// ParseNames reads current, legacy or both.
func ParseNames(s string) (Names, error) {
	switch s {
	case "current":
		return Current, nil
	case "legacy":
		return Legacy, nil
	case "both":
		return Both, nil
	}
	return 0, fmt.Errorf("metric names %q: want current, legacy or both", s)
}

func (n Names) shows(era Names) bool { return era == always || n&era != 0 }

// legacyIdentity are the labels that every legacy metric begins with.
var legacyIdentity = []string{
	"namespace_name", "service_name", "configuration_name", "revision_name", "pod_name", "container_name",
}

// gateContainer is the name of the gate's own container to Knative.
const gateContainer = "queue-proxy"

func (id *Identity) legacyValues() []string {
	return []string{id.Namespace, id.Service, id.Configuration, id.Revision, id.Pod, gateContainer}
}

func withIdentity(labels ...string) []string {
	return append(legacyIdentity[:len(legacyIdentity):len(legacyIdentity)], labels...)
}

// family is a Metric of the Prometheus page and how its samples are had.
type family struct {
	Metric
	era     Names
	samples func(*Collector, *page)
}

const (
	codeLabel = "http_response_status_code"
	tagLabel  = "kn_route_tag"
)

// families are all that a Collector shows, in the order of the documentation.
var families = []family{
	{Metric{"kn_serving_invocation_duration_seconds", Histogram, "seconds", []string{codeLabel},
		"Time from the first byte of a request to the user container until the end of the answer. Requests that never reached it are not in it."},
		Current, (*Collector).invocations},
	{Metric{"kn_serving_queue_depth", Gauge, "requests", nil,
		"Requests that wait for a slot now; those in flight are not in it."},
		Current, (*Collector).queueDepth},
	{Metric{"http_server_request_duration_seconds", Histogram, "seconds", []string{codeLabel, tagLabel},
		"Time from the arrival of a request to the end of its answer, waiting included."},
		Current, (*Collector).serverDurations},
	{Metric{"http_server_request_body_size_bytes", Histogram, "bytes", nil,
		"Size of request bodies, as taken from the client."},
		Current, (*Collector).requestBodies},
	{Metric{"http_server_response_body_size_bytes", Histogram, "bytes", nil,
		"Size of response bodies, as given to the client."},
		Current, (*Collector).responseBodies},
	{Metric{"target_info", Gauge, "", []string{
		"service_name", "service_instance_id", "service_version", "container_name",
		"k8s_namespace_name", "k8s_pod_name", "kn_service_name", "kn_configuration_name", "kn_revision_name"},
		"Who this is. Always 1."},
		Current, (*Collector).targetInfo},

	{Metric{"revision_request_count", Counter, "requests", withIdentity("response_code", "response_code_class", "route_tag"),
		"Requests that have ended."},
		Legacy, (*Collector).legacyRequests},
	{Metric{"revision_request_latencies", Histogram, "milliseconds", withIdentity("response_code", "response_code_class", "route_tag"),
		"Time from the arrival of a request to the end of its answer, waiting included."},
		Legacy, (*Collector).legacyLatencies},
	{Metric{"revision_app_request_count", Counter, "requests", withIdentity("response_code", "response_code_class"),
		"Requests that reached the user container and have ended."},
		Legacy, (*Collector).legacyAppRequests},
	{Metric{"revision_app_request_latencies", Histogram, "milliseconds", withIdentity("response_code", "response_code_class"),
		"Time from the first byte of a request to the user container until the end of the answer."},
		Legacy, (*Collector).legacyAppLatencies},
	{Metric{"revision_queue_depth", Gauge, "requests", legacyIdentity,
		"Requests that wait for a slot now; those in flight are not in it."},
		Legacy, (*Collector).queueDepth},

	{Metric{"queuegate_request_outcomes_total", Counter, "requests", []string{"outcome"},
		"Requests that have ended, by how; served and tunnelled were answered by the user container."},
		always, (*Collector).outcomes},
	{Metric{"queuegate_responses_total", Counter, "requests", []string{"code_class"},
		"Requests that have ended, by class of their status."},
		always, (*Collector).classes},
	{Metric{"queuegate_proxied_requests_total", Counter, "requests", nil,
		"Requests that have ended and that the activator had proxied."},
		always, (*Collector).proxiedRequests},
	{Metric{"queuegate_request_body_bytes_total", Counter, "bytes", nil,
		"Bytes of request bodies taken from clients, of requests that have ended."},
		always, (*Collector).requestBytes},
	{Metric{"queuegate_response_body_bytes_total", Counter, "bytes", nil,
		"Bytes of response bodies given to clients, of requests that have ended."},
		always, (*Collector).responseBytes},
	{Metric{"queuegate_queue_wait_seconds", Histogram, "seconds", nil,
		"Time from the arrival of a request until it got its slot, or until its end if it got none."},
		always, (*Collector).queueWaits},
	{Metric{"queuegate_in_flight_requests", Gauge, "requests", nil,
		"Requests that hold a slot now."},
		always, (*Collector).inFlight},
	{Metric{"queuegate_queue_capacity", Gauge, "requests", nil,
		"How many requests may wait."},
		always, (*Collector).queueCapacity},
	{Metric{"queuegate_concurrency_limit", Gauge, "requests", nil,
		"Most requests in flight at once; +Inf is unlimited."},
		always, (*Collector).concurrencyLimit},
	{Metric{"queuegate_upstream_open_connections", Gauge, "connections", nil,
		"Connections to the user container that are open now, idle ones included."},
		always, (*Collector).openConnections},
	{Metric{"queuegate_upstream_idle_connections", Gauge, "connections", nil,
		"Those of them that no request uses."},
		always, (*Collector).idleConnections},
	{Metric{"queuegate_upstream_dials_total", Counter, "connections", nil,
		"Attempts to connect to the user container for requests."},
		always, (*Collector).dials},
	{Metric{"queuegate_upstream_reuses_total", Counter, "requests", nil,
		"Requests that went out on a connection that was open already."},
		always, (*Collector).reuses},
	{Metric{"queuegate_upstream_replays_total", Counter, "requests", nil,
		"Requests that went out once more because their connection turned out to be closed."},
		always, (*Collector).replays},
	{Metric{"queuegate_container_state", Gauge, "", []string{"container", "state"},
		"1 for the state that the user container is in, 0 for the others."},
		always, (*Collector).states},
	{Metric{"queuegate_container_transitions_total", Counter, "transitions", []string{"container", "state", "cause"},
		"Changes of state of the user container, by the new state and why; no cause is a success."},
		always, (*Collector).transitions},
	{Metric{"queuegate_probe_attempts_total", Counter, "probes", []string{"container"},
		"Readiness probes of the user container."},
		always, (*Collector).probeAttempts},
	{Metric{"queuegate_probe_connections_total", Counter, "probes", []string{"container"},
		"Those of them that a connection was accepted for."},
		always, (*Collector).probeConnections},
	{Metric{"queuegate_probe_duration_seconds", Histogram, "seconds", []string{"container"},
		"Time that readiness probes took, whatever their result."},
		always, (*Collector).probeDurations},
	{Metric{"queuegate_http2_client_connections", Gauge, "connections", nil,
		"Connections of clients over HTTP/2 that are open now."},
		always, (*Collector).http2Connections},
	{Metric{"queuegate_http2_faults_total", Counter, "faults", []string{"kind"},
		"Faults of peers over HTTP/2, by kind: what made the gate reset a stream or close a connection."},
		always, (*Collector).http2Faults},
	{Metric{"queuegate_tls_certificate_expiry_timestamp_seconds", Gauge, "seconds", nil,
		"When the certificate in use ends, as Unix time; 0 while there is none."},
		always, (*Collector).certificateExpiry},
	{Metric{"queuegate_tls_certificate_loads_total", Counter, "loads", []string{"result"},
		"New certificates that were found, by whether they could be used (success, failure)."},
		always, (*Collector).certificateLoads},
	{Metric{"queuegate_tls_handshakes_total", Counter, "handshakes", []string{"result"},
		"Handshakes on the TLS port that have ended, by result (success, failure)."},
		always, (*Collector).handshakes},
	{Metric{"queuegate_dropped_log_lines_total", Counter, "lines", nil,
		"Lines of the request log that were lost because nobody took them in time."},
		always, (*Collector).droppedLines},
	{Metric{"queuegate_dropped_spans_total", Counter, "spans", nil,
		"Spans that were lost because the collector did not take them in time."},
		always, (*Collector).droppedSpans},
	{Metric{"queuegate_build_info", Gauge, "", []string{"version", "commit", "go_version"},
		"What was built. Always 1."},
		always, (*Collector).buildInfo},
}
