package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// observabilityValue is the JSON of OBSERVABILITY_CONFIG. Its contents are read by applyObservability, once all settings of
// their own are known.
type observabilityValue string

func (v *observabilityValue) set(text string) error {
	if firstByte(text) != '{' {
		return errNotAccepted
	}
	if !json.Valid([]byte(text)) {
		var any json.RawMessage
		return jsonFault(json.Unmarshal([]byte(text), &any))
	}
	*v = observabilityValue(text)
	return nil
}
func (v *observabilityValue) text() string  { return string(*v) }
func (*observabilityValue) accepts() string { return "a JSON object as Knative makes it" }
func (*observabilityValue) hint() string    { return "JSON" }

// observabilityKey is a key that OBSERVABILITY_CONFIG may hold.
type observabilityKey struct {
	section string // "" for the outermost object
	key     string
	kind    jsonKind
	choices []string // of a text; nil means any
	env     string   // the setting that means the same; "" if there is none
}

type jsonKind uint8

const (
	jsonText jsonKind = iota
	jsonBool
	jsonNumber
	jsonNanoseconds // a whole number, 0 or more
	jsonAnything
)

var (
	metricsProtocols = []string{"none", "prometheus", "grpc", "http/protobuf"}
	tracingProtocols = []string{"none", "zipkin", "grpc", "http/protobuf", "stdout"}
)

var observabilityKeys = []observabilityKey{
	{"tracing", "protocol", jsonText, tracingProtocols, "TRACING_CONFIG_BACKEND"},
	{"tracing", "endpoint", jsonText, nil, "TRACING_CONFIG_ZIPKIN_ENDPOINT"},
	{"tracing", "samplingRate", jsonNumber, nil, "TRACING_CONFIG_SAMPLE_RATE"},
	{"metrics", "protocol", jsonText, metricsProtocols, ""},
	{"metrics", "endpoint", jsonText, nil, ""},
	{"metrics", "exportInterval", jsonNanoseconds, nil, ""},
	{"requestMetrics", "protocol", jsonText, metricsProtocols, "SERVING_REQUEST_METRICS_BACKEND"},
	{"requestMetrics", "endpoint", jsonText, nil, ""}, // an address to listen on or to send to: see requestMetricsEndpoint
	{"requestMetrics", "exportInterval", jsonNanoseconds, nil, ""},
	{"runtime", "profiling", jsonText, []string{"enabled", "disabled"}, "ENABLE_PROFILING"},
	{"runtime", "exportInterval", jsonNanoseconds, nil, ""},
	{"", "enableRequestLog", jsonBool, nil, "SERVING_ENABLE_REQUEST_LOG"},
	{"", "requestLogTemplate", jsonText, nil, "SERVING_REQUEST_LOG_TEMPLATE"},
	{"", "enableProbeRequestLog", jsonBool, nil, "SERVING_ENABLE_PROBE_REQUEST_LOG"},
	{"", "LoggingURLTemplate", jsonAnything, nil, ""},
	{"", "EnableVarLogCollection", jsonAnything, nil, ""},
}

func (k *observabilityKey) path() string {
	if k.section == "" {
		return k.key
	}
	return k.section + "." + k.key
}

// applyObservability gives each setting that was not set by itself the value that OBSERVABILITY_CONFIG has for it. All values are
// checked, used or not.
func (l *loading) applyObservability() {
	index := settingIndex("OBSERVABILITY_CONFIG")
	if l.cfg.ObservabilityConfig == "" {
		return
	}
	sections := l.readObservability(l.cfg.ObservabilityConfig)
	for i := range observabilityKeys {
		k := &observabilityKeys[i]
		raw, ok := sections[k.section][k.key]
		if !ok || !isPresent(raw) {
			continue
		}
		text, want := k.read(raw)
		switch {
		case want != "":
			l.problemIn(k.path(), string(raw), want)
		case text == "":
		case k.section == "requestMetrics" && k.key == "endpoint":
			l.requestMetricsEndpoint(text, sections["requestMetrics"]["protocol"])
		case k.section == "requestMetrics" && k.key == "exportInterval":
			n, _ := parseWhole(text)
			l.cfg.MetricsExportInterval = min(time.Duration(n), longestDuration)
		case k.env != "":
			l.deriveFrom(index, k.path(), k.env, text)
		}
	}
}

// readObservability returns the objects in text by name, "" for the outermost, and warns of keys that nobody knows.
func (l *loading) readObservability(text string) map[string]map[string]json.RawMessage {
	var outermost map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &outermost) // set has seen that this is an object
	sections := map[string]map[string]json.RawMessage{"": outermost}
	for _, name := range slices.Sorted(maps.Keys(outermost)) {
		switch {
		case !isSection(name):
			l.warnUnknown("", name)
		case isPresent(outermost[name]):
			var section map[string]json.RawMessage
			if json.Unmarshal(outermost[name], &section) != nil {
				l.problemIn(name, string(outermost[name]), "an object")
				continue
			}
			sections[name] = section
			for _, key := range slices.Sorted(maps.Keys(section)) {
				l.warnUnknown(name, key)
			}
		}
	}
	return sections
}

func isSection(name string) bool {
	return name != "" && slices.ContainsFunc(observabilityKeys, func(k observabilityKey) bool { return k.section == name })
}

func (l *loading) warnUnknown(section, key string) {
	if !slices.ContainsFunc(observabilityKeys, func(k observabilityKey) bool { return k.section == section && k.key == key }) {
		unknown := observabilityKey{section: section, key: key}
		l.warnings = append(l.warnings, fmt.Sprintf("OBSERVABILITY_CONFIG: unknown key %q is ignored", unknown.path()))
	}
}

// read returns the value in the form that the setting of the same meaning takes, or what is wanted instead.
func (k *observabilityKey) read(raw json.RawMessage) (text, want string) {
	switch k.kind {
	case jsonText:
		if json.Unmarshal(raw, &text) != nil {
			return "", "a string"
		}
		if text != "" && k.choices != nil && !slices.Contains(k.choices, text) {
			return "", anyOf(k.choices)
		}
		if k.env == "ENABLE_PROFILING" && text != "" {
			text = strconv.FormatBool(text == "enabled")
		}
	case jsonBool:
		var b bool
		if json.Unmarshal(raw, &b) != nil {
			return "", "true or false"
		}
		text = strconv.FormatBool(b)
	case jsonNumber:
		if firstByte(string(raw)) == '"' {
			return "", "a number"
		}
		text = string(raw)
	case jsonNanoseconds:
		if _, ok := parseWhole(string(raw)); !ok {
			return "", "whole nanoseconds, 0 or more"
		}
		text = string(raw)
	}
	return text, ""
}

// requestMetricsEndpoint reads the endpoint as its protocol does: Prometheus listens there, the others send there.
func (l *loading) requestMetricsEndpoint(endpoint string, protocol json.RawMessage) {
	const path = "requestMetrics.endpoint"
	index := settingIndex("OBSERVABILITY_CONFIG")
	var name string
	_ = json.Unmarshal(protocol, &name) // applyObservability has reported what is not a string
	switch name {
	case "", "prometheus":
		host, port, ok := splitHostPort(endpoint)
		if !ok || host != "" && !validHost(host) {
			l.problemIn(path, strconv.Quote(endpoint), "host:port or :port to listen on")
			return
		}
		l.deriveFrom(index, path, "METRICS_PORT", strconv.Itoa(port))
		l.cfg.MetricsAddress = host
	case "grpc", "http/protobuf":
		l.deriveFrom(index, path, "METRICS_COLLECTOR_ADDRESS", endpoint)
	}
}
