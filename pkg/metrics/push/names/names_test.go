package names

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const docsPath = "../../../../docs/tracing.md"

func TestTheDocsListTheOTLPNames(t *testing.T) {
	docs, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(docs), "| on the page | over OTLP |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	metrics, attributes := 0, 0
	for _, row := range regexp.MustCompile("(?m)^\\| (label )?`([a-z_]+)` \\| (?:attribute )?`([a-z_.]+)`").FindAllStringSubmatch(table, -1) {
		name := Metric
		if row[1] != "" {
			name, attributes = Attribute, attributes+1
		} else {
			metrics++
		}
		if got := name(row[2]); got != row[3] || got == row[2] {
			t.Errorf("%s goes by %q, the docs have %q", row[2], got, row[3])
		}
	}
	if metrics != 7 || attributes != 6 {
		t.Errorf("%s has %d metrics and %d labels, want 7 and 6", docsPath, metrics, attributes)
	}
}

func TestOtherMetricsKeepTheirNames(t *testing.T) {
	for _, name := range []string{"", "target_info", "queuegate_in_flight_requests"} {
		if got := Metric(name); got != name {
			t.Errorf("metric %q is called %q", name, got)
		}
		if got := Attribute(name); got != name {
			t.Errorf("label %q is called %q", name, got)
		}
	}
}

func TestTheUnitOfAMetricIsDerivedFromItsName(t *testing.T) {
	for name, want := range map[string]string{
		"kn_serving_invocation_duration_seconds": "s", "revision_request_latencies": "ms", "wait_milliseconds": "ms",
		"queuegate_request_body_bytes_total": "By", "http_server_request_body_size_bytes": "By",
		"queuegate_in_flight_requests": "{request}", "queuegate_proxied_requests_total": "{request}", "kn_serving_queue_depth": "{request}",
		"queuegate_container_state": "", "revision_queue_depth": "", "seconds": "", "": "",
	} {
		if got := Unit(name); got != want {
			t.Errorf("unit of %q is %q, want %q", name, got, want)
		}
	}
}
