// Package names maps the names of the Prometheus page to OTLP names.
package names

import "strings"

// Resource is the Prometheus metric that describes the resource. OTLP sends a
// resource instead.
const Resource = "target_info"

// StatusCode is the only numeric attribute.
const StatusCode = "http.response.status_code"

// Scope is the Prometheus label that names the instrumentation scope.
const Scope = "otel_scope_name"

// Metric returns Knative's OTLP name of a metric family, or family itself if Knative
// has none.
func Metric(family string) string {
	if !strings.HasPrefix(family, "http_") && !strings.HasPrefix(family, "kn_") {
		return family
	}
	return dotted(strings.TrimSuffix(strings.TrimSuffix(family, "_seconds"), "_bytes"))
}

// Attribute returns the OTLP name of a label.
func Attribute(label string) string {
	switch group, _, _ := strings.Cut(label, "_"); group {
	case "http", "kn", "network", "url":
		return dotted(label)
	}
	return label
}

// dotted replaces underscores by dots, except within an element such as status_code.
func dotted(name string) string { return elements.Replace(name) }

var elements = strings.NewReplacer("status_code", "status_code", "active_requests", "active_requests", "_", ".")

// Unit returns the unit (UCUM) for the suffix of a family name; "" = none.
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
