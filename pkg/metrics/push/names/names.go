// Package names has what figures of the Prometheus page are called where they
// leave by another way.
package names

import "strings"

// Resource is the family that Prometheus has in the place of a resource. What
// has a resource of its own leaves it out.
const Resource = "target_info"

// StatusCode is the one attribute that is a number.
const StatusCode = "http.response.status_code"

// Metric is the name of a family. Knative's own have those that it uses over
// OTLP, all others the one that Prometheus sees.
func Metric(family string) string {
	switch family {
	case "kn_serving_invocation_duration_seconds":
		return "kn.serving.invocation.duration"
	case "kn_serving_queue_depth":
		return "kn.serving.queue.depth"
	case "http_server_request_duration_seconds":
		return "http.server.request.duration"
	case "http_server_request_body_size_bytes":
		return "http.server.request.body.size"
	case "http_server_response_body_size_bytes":
		return "http.server.response.body.size"
	}
	return family
}

// Attribute is the name of a label.
func Attribute(label string) string {
	switch label {
	case "http_response_status_code":
		return StatusCode
	case "kn_route_tag":
		return "kn.route.tag"
	}
	return label
}

// Unit reads the unit (UCUM) off the name of a family, where Prometheus wants
// it; empty if it has none.
func Unit(family string) string {
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
