package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// observability holds the values of OBSERVABILITY_CONFIG by path. A path is the
// section, a dot and the key, such as tracing.protocol. For keys outside of a section,
// the path begins with the dot, such as .enableRequestLog.
type observability map[string]json.RawMessage

var observabilitySections = []string{"tracing", "metrics", "requestMetrics", "runtime"}

// readObservability sets settings from OBSERVABILITY_CONFIG. Load reads the variables
// and flags of these settings later, so they take precedence.
func (l *loader) readObservability() {
	if l.observability == "" {
		return
	}
	values := l.observabilityValues()
	for i := range l.settings {
		s := &l.settings[i]
		for path := range strings.FieldsSeq(s.names) {
			if strings.Contains(path, ".") {
				l.take(values, path, s.value, s)
			}
		}
	}
	// Knative omits a sampling rate of 0 from its JSON. So without a rate in the JSON
	// the rate is 0, and not the default of the setting.
	if s := l.setting("TRACING_CONFIG_SAMPLE_RATE"); s.source == fromDefault && isOTLP(l.Tracing.Protocol) {
		s.source, s.found = l.setting("OBSERVABILITY_CONFIG").source, "OBSERVABILITY_CONFIG"
		l.Tracing.SamplingRate = 0
	}
	var profiling, text string
	if l.take(values, "runtime.profiling", wordKind("enabled", "disabled").bind(&profiling), l.setting("ENABLE_PROFILING")) {
		l.Profiling = profiling == "enabled"
	}
	l.takeMetricsEndpoint(values)
	var interval time.Duration
	if l.take(values, "requestMetrics.exportInterval", nanoseconds.bind(&interval), nil) && interval > 0 {
		s := l.setting("OTEL_METRIC_EXPORT_INTERVAL")
		s.source, s.found = l.setting("OBSERVABILITY_CONFIG").source, "OBSERVABILITY_CONFIG requestMetrics.exportInterval"
		l.MetricsExportInterval = (interval + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	// These are only checked.
	l.take(values, "metrics.protocol", metricsBackend.bind(&text), nil)
	l.take(values, "metrics.endpoint", freeText.bind(&text), nil)
	l.take(values, "metrics.exportInterval", nanoseconds.bind(&interval), nil)
	l.take(values, "runtime.exportInterval", nanoseconds.bind(&interval), nil)
	delete(values, ".LoggingURLTemplate")
	delete(values, ".EnableVarLogCollection")

	var unknown []string
	for path := range values {
		unknown = append(unknown, strings.TrimPrefix(path, "."))
	}
	slices.Sort(unknown)
	for _, path := range unknown {
		l.warn("OBSERVABILITY_CONFIG: unknown key %q is ignored", path)
	}
}

// observabilityValues splits the JSON into values by path.
func (l *loader) observabilityValues() observability {
	values := make(observability)
	var outermost map[string]json.RawMessage
	_ = json.Unmarshal([]byte(l.observability), &outermost) // validated before
	for key, raw := range outermost {
		if !slices.Contains(observabilitySections, key) {
			values["."+key] = raw
		}
	}
	for _, name := range observabilitySections {
		var section map[string]json.RawMessage
		if raw, ok := outermost[name]; ok && json.Unmarshal(raw, &section) != nil {
			l.observabilityProblem(name, raw, "an object", nil)
		}
		for key, raw := range section {
			values[name+"."+key] = raw
		}
	}
	return values
}

// take removes the value at path from values and stores it in v. If s is not nil, it
// also records OBSERVABILITY_CONFIG as the origin of the setting s. The result is false
// if the value is absent, empty or invalid; take reports an invalid value.
func (l *loader) take(values observability, path string, v value, s *setting) bool {
	raw := values[path]
	delete(values, path)
	if len(raw) == 0 || string(raw) == "null" {
		return false
	}
	text, want := v.fromJSON(raw)
	if want == "" && text == "" {
		return false
	}
	var err error
	if want == "" {
		if err = v.set(text); err == nil {
			if s != nil {
				s.source, s.found = l.setting("OBSERVABILITY_CONFIG").source, "OBSERVABILITY_CONFIG "+strings.TrimPrefix(path, ".")
			}
			return true
		}
		want = v.about().wants
	}
	l.observabilityProblem(strings.TrimPrefix(path, "."), raw, want, err)
	return false
}

func (l *loader) observabilityProblem(path string, raw json.RawMessage, want string, err error) {
	s := l.setting("OBSERVABILITY_CONFIG")
	s.problems = append(s.problems, wantError(fmt.Sprintf("%s %s=%s", s.name, path, shorten(string(raw))), want, err))
}

// listenAddress is the address on which metrics are served to Prometheus.
var listenAddress = textKind("", "host:port or :port to listen on", plain, accept(func(text string) bool {
	name, _, ok := splitHostPort(text)
	return ok && (name == "" || isHost(name))
}))

// takeMetricsEndpoint parses the endpoint: a listening address for Prometheus,
// otherwise a collector.
func (l *loader) takeMetricsEndpoint(values observability) {
	const path = "requestMetrics.endpoint"
	var text string
	switch l.MetricsBackend {
	case "", "prometheus":
		port := l.setting("METRICS_PORT")
		if l.take(values, path, listenAddress.bind(&text), port) {
			var digits string
			l.MetricsAddress, digits, _ = splitHostPort(text)
			_ = port.value.set(digits)
		}
	case "grpc", "http/protobuf":
		collector := l.setting("METRICS_COLLECTOR_ADDRESS")
		l.take(values, path, collector.value, collector)
	default:
		l.take(values, path, freeText.bind(&text), nil)
	}
}

// shorten reduces a fragment of JSON to one short line.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > shownBytes {
		return strings.ToValidUTF8(text[:shownBytes], "") + "..."
	}
	return text
}
