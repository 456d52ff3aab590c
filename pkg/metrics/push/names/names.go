// Package names has the names of the Prometheus page's metrics over OTLP.
package names

import "strings"

// Resource is the family that Prometheus has in the place of a resource. What
// has a resource of its own leaves it out.
const Resource = "target_info"

// StatusCode is the one attribute that is a number.
const StatusCode = "http.response.status_code"

// Scope is the label that Prometheus has in the place of an instrumentation
// scope.
const Scope = "otel_scope_name"

// Metric is the name of a family. Knative's own have those that it uses over
// OTLP, all others the one that Prometheus sees.
func Metric(family string) string {
	if !strings.HasPrefix(family, "http_") && !strings.HasPrefix(family, "kn_") {
		return family
	}
	return dotted(strings.TrimSuffix(strings.TrimSuffix(family, "_seconds"), "_bytes"))
}

// Attribute is the name of a label. Those of the semantic conventions have
// dots.
func Attribute(label string) string {
	switch group, _, _ := strings.Cut(label, "_"); group {
	case "http", "kn", "network", "url":
		return dotted(label)
	}
	return label
}

// dotted puts dots where the semantic conventions have them: not between the words of
// one element.
func dotted(name string) string { return elements.Replace(name) }

var elements = strings.NewReplacer("status_code", "status_code", "active_requests", "active_requests", "_", ".")

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
