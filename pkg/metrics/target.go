package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// targetInfo is the metric whose labels are the attributes of the resource.
const targetInfo = "target_info"

// infoLabels converts attributes to labels as OpenTelemetry specifies ("Prometheus and
// OpenMetrics Compatibility", resource attributes). If several keys become the same
// label name, their values are sorted and joined. An attribute is omitted if its label
// name is in own, or if its key cannot become a valid name.
func infoLabels(attributes map[string]string, own []string) prometheus.Labels {
	values := map[string][]string{}
	for key, value := range attributes {
		if name := labelName(key); name != "" && !slices.Contains(own, name) {
			values[name] = append(values[name], strings.ToValidUTF8(value, "\uFFFD"))
		}
	}
	labels := prometheus.Labels{}
	for name := range values {
		slices.Sort(values[name])
		labels[name] = strings.Join(values[name], ";")
	}
	return labels
}

// labelName replaces each run of underscores and characters that are invalid in a label
// by one underscore. If nothing else is left, it returns "".
func labelName(key string) string {
	var b strings.Builder
	for _, r := range key {
		if isAlphanumeric(r) {
			b.WriteRune(r)
		} else if !strings.HasSuffix(b.String(), "_") {
			b.WriteByte('_')
		}
	}
	name := b.String()
	if name == "" || name == "_" {
		return ""
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "key_" + name
	}
	return name
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
