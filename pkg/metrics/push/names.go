package push

import "strings"

// resourceFamily is what Prometheus has in the place of a resource. Messages
// carry the resource itself.
const resourceFamily = "target_info"

// otlpNames are those that Knative's own figures go by over OTLP. All others
// keep the name that they have for Prometheus.
var otlpNames = map[string]string{
	"kn_serving_invocation_duration_seconds": "kn.serving.invocation.duration",
	"kn_serving_queue_depth":                 "kn.serving.queue.depth",
	"http_server_request_duration_seconds":   "http.server.request.duration",
	"http_server_request_body_size_bytes":    "http.server.request.body.size",
	"http_server_response_body_size_bytes":   "http.server.response.body.size",
}

var otlpKeys = map[string]string{
	"http_response_status_code": statusKey,
	"kn_route_tag":              "kn.route.tag",
}

// statusKey is the one attribute that is a number.
const statusKey = "http.response.status_code"

func nameOf(family string) string {
	if name, ok := otlpNames[family]; ok {
		return name
	}
	return family
}

func keyOf(label string) string {
	if key, ok := otlpKeys[label]; ok {
		return key
	}
	return label
}

// unitOf reads the unit (UCUM) off the name, where Prometheus wants it.
func unitOf(family string) string {
	name := strings.TrimSuffix(family, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_latencies"), strings.HasSuffix(name, "_milliseconds"):
		return "ms"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	case strings.HasSuffix(name, "_requests"), name == "kn_serving_queue_depth":
		return "{request}"
	}
	return ""
}
