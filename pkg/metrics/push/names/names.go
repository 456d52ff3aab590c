// Package names maps the names of the Prometheus page to OTLP names.
package names

import "strings"

// Resource is the family that represents the resource in Prometheus. Omit it where the
// protocol has resources.
const Resource = "target_info"

// StatusCode is the only numeric attribute.
const StatusCode = "http.response.status_code"

// Scope is the label that represents the instrumentation scope in Prometheus.
const Scope = "otel_scope_name"

// Metric returns the OTLP name of a family: Knative's OTLP name if it has one,
// otherwise the name in Prometheus.
func Metric(family string) string {
	if !strings.HasPrefix(family, "http_") && !strings.HasPrefix(family, "kn_") {
		return family
	}
	return dotted(strings.TrimSuffix(strings.TrimSuffix(family, "_seconds"), "_bytes"))
}

// Attribute returns the OTLP name of a label. Names of the semantic conventions have
// dots.
func Attribute(label string) string {
	switch group, _, _ := strings.Cut(label, "_"); group {
	case "http", "kn", "network", "url":
		return dotted(label)
	}
	return label
}

// dotted inserts the dots of the semantic conventions, which separate elements and not
// words.
func dotted(name string) string { return elements.Replace(name) }

var elements = strings.NewReplacer("status_code", "status_code", "active_requests", "active_requests", "_", ".")

// Unit returns the unit (UCUM) from the suffix of a family name; empty if it has none.
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
