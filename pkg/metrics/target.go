package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// targetInfo is the metric that describes the gate. In OpenTelemetry, its labels are the
// attributes of the resource.
const targetInfo = "target_info"

// infoLabels converts the attributes of a resource to labels as OpenTelemetry specifies
// ("Prometheus and OpenMetrics Compatibility", resource attributes). If several
// attributes have the same label name, it sorts their values and joins them. The
// parameter own lists the labels that the metric already has. An attribute with such a
// label name is omitted.
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

// labelName replaces each run of underscores and invalid characters by one underscore.
// It returns "" if key has no valid character.
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
