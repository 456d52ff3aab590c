package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// OTel holds the settings that are named as OpenTelemetry names its environment variables. They have the meaning and the precedence
// that Knative's queue-proxy gives them.
type OTel struct {
	Both, Traces, Metrics OTLP // where a field of Traces or Metrics is zero, that of Both counts

	ServiceName        string // "" = as otlp.Resource names it
	ResourceAttributes []otlp.KeyValue
	Sampler            string // "" = TRACING_CONFIG_SAMPLE_RATE of the requests whose senders have not decided
	SamplerArg         string // a share where the sampler has one
	Propagators        []string
	Disabled           bool // nothing is traced, and no metrics are sent
}

// OTLP configures the exporters of a signal over OTLP.
type OTLP struct {
	Endpoint    string // "" = that of the exporter's own setting
	Protocol    string // only compared with the protocol in use
	Headers     []otlp.Header
	Timeout     time.Duration // of one attempt; longestDuration = none
	Compression string        // gzip or none
	Certificate string        // file of certificates in PEM; "" = those of the system
	Insecure    string        // "true", "false", or "" for what the endpoint says
}

// isOTLP is true of the names of exporters that send OTLP.
func isOTLP(exporter string) bool {
	return exporter == otlp.ProtocolGRPC || exporter == otlp.ProtocolHTTP
}

// Exporters returns the exporters of traces and metrics that are in use.
func (c *Config) Exporters() (traces, metrics string) {
	traces, metrics = c.Tracing.Protocol, c.MetricsBackend
	if c.OTel.Disabled {
		traces = "none"
		if isOTLP(metrics) {
			metrics = "none"
		}
	}
	return traces, metrics
}

// Sampling returns the share of requests that are traced, and whether that is of all requests or only of those whose senders have not
// decided.
func (c *Config) Sampling() (share float64, ignoresParent bool) {
	if c.Tracing.Debug {
		return 1, true
	}
	kind, isParentBased := strings.CutPrefix(c.OTel.Sampler, parentBased)
	switch kind {
	case samplerOn:
		share = 1
	case samplerOff:
	case samplerRatio:
		share = 1
		if parsed, err := rate.parse(cmp.Or(c.OTel.SamplerArg, "1")); err == nil {
			share = parsed
		}
	default:
		share, isParentBased = c.Tracing.SamplingRate, true
		if c.OTel.SamplerArg != "" {
			share, _ = rate.parse(c.OTel.SamplerArg)
		}
	}
	return share, !isParentBased
}

// Samplers are these three, and the same after parentBased.
const (
	samplerOn    = "always_on"
	samplerOff   = "always_off"
	samplerRatio = "traceidratio"
	parentBased  = "parentbased_"
)

// propagators are the formats of a trace context by their names.
var propagators = map[string]gate.TraceFormats{"tracecontext": gate.W3C, "b3": gate.B3Single, "b3multi": gate.B3Multi, "baggage": 0, "none": 0}

// Propagation returns the formats of trace context that count. 0 = all that the gate knows, or, with isOff, none.
func (c *Config) Propagation() (formats gate.TraceFormats, isOff bool) {
	for _, name := range c.OTel.Propagators {
		formats |= propagators[name]
	}
	return formats, c.OTel.Propagators != nil && formats == 0
}

// TracesOverOTLP returns where traces go, and the file of the certificates that verify the collector, "" for those of the system.
func (c *Config) TracesOverOTLP() (to otlp.Destination, certificate string) {
	return c.OTel.destination(&c.OTel.Traces, otlp.Traces.Path, c.Tracing.Protocol, c.Tracing.Endpoint)
}

// MetricsOverOTLP is TracesOverOTLP for metrics.
func (c *Config) MetricsOverOTLP() (to otlp.Destination, certificate string) {
	return c.OTel.destination(&c.OTel.Metrics, otlp.Metrics.Path, c.MetricsBackend, c.MetricsCollector)
}

// destination follows the OTLP exporter specification 1.51: path is added to a general endpoint, and an endpoint of the signal is
// used unchanged. As in the exporters that queue-proxy links, Insecure decides over the scheme of both, and not of own.
func (o *OTel) destination(signal *OTLP, path, protocol, own string) (to otlp.Destination, certificate string) {
	to = otlp.Destination{Protocol: protocol, Endpoint: own, Options: otlp.Options{
		Headers: signal.Headers, Timeout: cmp.Or(signal.Timeout, o.Both.Timeout),
		Gzip: cmp.Or(signal.Compression, o.Both.Compression) == "gzip",
	}}
	if to.Headers == nil {
		to.Headers = o.Both.Headers
	}
	certificate = cmp.Or(signal.Certificate, o.Both.Certificate)
	endpoint := cmp.Or(signal.Endpoint, o.Both.Endpoint)
	if endpoint == "" {
		return to, certificate
	}
	u, err := otlp.ParseEndpoint(endpoint, "", false)
	if err != nil {
		panic("BUG: " + err.Error()) // the settings have been validated
	}
	if signal.Endpoint == "" {
		u = u.JoinPath(path)
	}
	if insecure := cmp.Or(signal.Insecure, o.Both.Insecure); insecure != "" && protocol == otlp.ProtocolGRPC {
		u.Scheme = map[string]string{"true": "http", "false": "https"}[insecure]
	}
	to.Endpoint, to.IsExact = u.String(), true
	return to, certificate
}

// writeExports writes a comment line about each exporter in use.
func (c *Config) writeExports(b *strings.Builder) {
	if c.OTel.Disabled {
		b.WriteString("# No traces and no metrics over OTLP (source: OTEL_SDK_DISABLED)\n")
	}
	// first is the origin of the first of the settings that is given.
	first := func(names ...string) string {
		given := slices.IndexFunc(names, c.Given)
		if given < 0 {
			return "default"
		}
		if s := c.setting(names[given]); s.source == fromEnvironment {
			return s.found
		}
		return "--" + c.setting(names[given]).flag
	}
	traces, metrics := c.Exporters()
	for _, export := range []struct {
		what, signal, exporter, endpoint string
		isUsed                           bool
		destination                      func() (otlp.Destination, string)
	}{
		{"Traces", "TRACES_", "TRACING_CONFIG_BACKEND", "TRACING_CONFIG_ZIPKIN_ENDPOINT", isOTLP(traces), c.TracesOverOTLP},
		{"Metrics", "METRICS_", "SERVING_REQUEST_METRICS_BACKEND", "METRICS_COLLECTOR_ADDRESS", isOTLP(metrics), c.MetricsOverOTLP},
	} {
		if !export.isUsed {
			continue
		}
		to, _ := export.destination()
		shown := to.Endpoint
		if u, err := url.Parse(shown); err == nil {
			shown = u.Redacted()
		}
		fmt.Fprintf(b, "# %s are sent over %s (source: %s) to %s (source: %s)\n", export.what, to.Protocol, first(export.exporter), oneLine(shown),
			first(otlpPrefix+export.signal+"ENDPOINT", otlpPrefix+"ENDPOINT", export.endpoint))
	}
	if traces != "none" {
		share, ignoresParent := c.Sampling()
		of := "of the requests without a decision of the sender"
		if ignoresParent {
			of = "of all requests"
		}
		fmt.Fprintf(b, "# A share of %s %s is traced (source: %s)\n", rate.format(share), of,
			first("TRACING_CONFIG_DEBUG", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "TRACING_CONFIG_SAMPLE_RATE"))
	}
}

const (
	otelTitle  = "OpenTelemetry"
	otlpPrefix = "OTEL_EXPORTER_OTLP_"
)

// otelRows has three rows of each setting of exporters over OTLP: for both signals, for traces and for metrics.
func otelRows(c *Config) (rows []row) {
	for _, setting := range []struct {
		name, standard string
		value          func(*OTLP) value
		help           string // begins with what the setting is, followed by " of SIGNALS"
	}{
		{"ENDPOINT", "(none)", func(o *OTLP) value { return endpoint.at(&o.Endpoint) },
			"Collector"},
		{"PROTOCOL", "(that of the exporter)", func(o *OTLP) value { return otlpProtocol.at(&o.Protocol) },
			"Protocol"},
		{"HEADERS", "(none)", func(o *OTLP) value { return otlpHeaders.at(&o.Headers) },
			"Header fields, percent-encoded, that the gate sends to the collector"},
		{"TIMEOUT", "10000", func(o *OTLP) value { return milliseconds.at(&o.Timeout) },
			"Longest time in milliseconds, 0 = unlimited, for one attempt to reach the collector"},
		{"COMPRESSION", "none", func(o *OTLP) value { return words("gzip", "none").at(&o.Compression) },
			"Compression of messages to the collector"},
		{"CERTIFICATE", "(those of the system)", func(o *OTLP) value { return certificateFile.at(&o.Certificate) },
			"File of certificates, in PEM, that verify the collector"},
		{"INSECURE", "(as the endpoint says)", func(o *OTLP) value { return words("true", "false").at(&o.Insecure) },
			"Clear text, or TLS, over gRPC to the collector"},
	} {
		for _, signal := range []struct {
			prefix, flag, of string
			to               *OTLP
		}{
			{"", "", "traces and metrics over OTLP", &c.OTel.Both},
			{"TRACES_", "traces-", "traces over OTLP", &c.OTel.Traces},
			{"METRICS_", "metrics-", "metrics over OTLP", &c.OTel.Metrics},
		} {
			r := row{
				otlpPrefix + signal.prefix + setting.name, "otlp-" + signal.flag + strings.ToLower(setting.name),
				setting.standard, setting.value(signal.to), setting.help + " of " + signal.of + ".",
			}
			if signal.prefix != "" {
				r.standard = "(" + otlpPrefix + setting.name + ")"
			}
			switch setting.name {
			case "ENDPOINT":
				r.help += " It wins over TRACING_CONFIG_ZIPKIN_ENDPOINT, METRICS_COLLECTOR_ADDRESS and OBSERVABILITY_CONFIG. " +
					"host:port means https. It turns no exporter on."
				if signal.prefix == "" {
					r.help += " Over http/protobuf, /v1/traces and /v1/metrics are added to its path."
				}
			case "PROTOCOL":
				r.help += " The exporters are chosen by TRACING_CONFIG_BACKEND, SERVING_REQUEST_METRICS_BACKEND and OBSERVABILITY_CONFIG, " +
					"as in Knative; a warning says if this names another one."
			case "INSECURE":
				r.help += " It decides over the scheme of endpoints in OTEL_* settings, and not of others."
			}
			rows = append(rows, r)
		}
	}
	return append(rows, []row{
		{"OTEL_SERVICE_NAME", "otel-service-name", "(SERVING_SERVICE)", freeText.at(&c.OTel.ServiceName),
			"service.name of traces and of metrics over OTLP. Without it: SERVING_SERVICE, SERVING_CONFIGURATION, SERVING_REVISION or " +
				"service.name of OTEL_RESOURCE_ATTRIBUTES, whichever is set first."},
		{"OTEL_RESOURCE_ATTRIBUTES", "otel-resource-attributes", "(none)", resourceAttributes.at(&c.OTel.ResourceAttributes),
			"Attributes of the resource of traces and metrics over OTLP, beside those of the gate, which win."},
		{"OTEL_TRACES_SAMPLER", "otel-traces-sampler", "(parentbased_traceidratio of TRACING_CONFIG_SAMPLE_RATE)", sampler.at(&c.OTel.Sampler),
			"Requests that are traced: always_on, always_off, traceidratio (a share of OTEL_TRACES_SAMPLER_ARG), or one of these after parentbased_, " +
				"where the decision of the sender counts. It wins over TRACING_CONFIG_SAMPLE_RATE and OBSERVABILITY_CONFIG."},
		{"OTEL_TRACES_SAMPLER_ARG", "otel-traces-sampler-arg", "(1)", samplerArg.at(&c.OTel.SamplerArg),
			"Share from 0 to 1 of the samplers traceidratio and parentbased_traceidratio. Without OTEL_TRACES_SAMPLER it replaces TRACING_CONFIG_SAMPLE_RATE."},
		{"OTEL_PROPAGATORS", "otel-propagators", "(tracecontext, b3 and b3multi, whichever comes)", propagatorNames.at(&c.OTel.Propagators),
			"Formats of trace context that count in a request and are sent to the container: tracecontext, b3, b3multi; none = spans have no parent " +
				"and headers are forwarded unchanged. Baggage is forwarded in any case."},
		{"OTEL_METRIC_EXPORT_INTERVAL", "otel-metric-export-interval", "60000", exportInterval.at(&c.MetricsExportInterval),
			"Milliseconds between two messages with metrics over OTLP. It wins over OBSERVABILITY_CONFIG."},
		{"OTEL_SDK_DISABLED", "otel-sdk-disabled", "false", either("false", "true").at(&c.OTel.Disabled),
			"Trace nothing and send no metrics over OTLP. The page for Prometheus remains."},
	}...)
}

var (
	otlpProtocol = words(otlp.ProtocolGRPC, otlp.ProtocolHTTP)

	certificateFile = textKind("PATH", "a path", plain, accept(func(text string) bool { return strings.IndexByte(text, 0) < 0 }))

	// milliseconds is a timeout, 0 for none.
	milliseconds = ignoring(millisecondsFrom(0))

	exportInterval = ignoring(millisecondsFrom(1))

	sampler = func() *kind[string] {
		k := words(samplerOn, samplerOff, samplerRatio, parentBased+samplerOn, parentBased+samplerOff, parentBased+samplerRatio)
		k.hint = "SAMPLER"
		return ignoring(k)
	}()

	// samplerArg is read by checkSampler, because its meaning is the sampler's.
	samplerArg = textKind("TEXT", "a number from 0 to 1", plain, accept(anyText))

	propagatorNames = &kind[[]string]{form{"PROPAGATORS", "tracecontext, baggage, b3, b3multi or none, separated by commas", plain},
		func(text string) (names []string, err error) {
			var ignored []error
			for name := range strings.SplitSeq(text, ",") {
				name = strings.TrimSpace(name)
				if _, ok := propagators[name]; !ok {
					ignored = append(ignored, fmt.Errorf("%s is ignored: want tracecontext, baggage, b3, b3multi or none", quoteShort(name)))
				} else if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			if ignored != nil {
				return names, ignoredError{errors.Join(ignored...)}
			}
			return names, nil
		},
		func(names []string) string { return strings.Join(names, ",") }}

	// otlpHeaders never prints a value: they are credentials as a rule.
	otlpHeaders = &kind[[]otlp.Header]{
		form{"HEADERS", "name=value pairs, percent-encoded and separated by commas", func(text string) (string, bool) { return text, true }},
		parseHeaders,
		func(headers []otlp.Header) string {
			pairs := make([]string, len(headers))
			for i, h := range headers {
				pairs[i] = h.Name + "=" + masked
			}
			return strings.Join(pairs, ",")
		}}
)

// resourceAttributes are OpenTelemetry's (Resource SDK, section on OTEL_RESOURCE_ATTRIBUTES).
var resourceAttributes = &kind[[]otlp.KeyValue]{
	form{"ATTRIBUTES", "key=value pairs, their values percent-encoded, separated by commas", plain},
	parseAttributes,
	func(attributes []otlp.KeyValue) string {
		pairs := make([]string, len(attributes))
		for i, a := range attributes {
			pairs[i] = a.Key + "=" + url.PathEscape(a.Value)
		}
		return strings.Join(pairs, ",")
	}}

// parseAttributes ignores pairs without a key or an equals sign, and takes values that are not percent-encoded as they are.
func parseAttributes(text string) (attributes []otlp.KeyValue, err error) {
	var ignored []error
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found || key == "" {
			ignored = append(ignored, fmt.Errorf("%s is ignored: want key=value", quoteShort(pair)))
			continue
		}
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		} else {
			ignored = append(ignored, fmt.Errorf("%s is taken as it is: want a percent-encoded value", quoteShort(pair)))
		}
		attributes = append(attributes, otlp.KeyValue{Key: key, Value: value})
	}
	if ignored != nil {
		return attributes, ignoredError{errors.Join(ignored...)}
	}
	return attributes, nil
}

// ignoring is k with warnings in the place of its problems: a value that k does not accept counts as unset, as in queue-proxy.
func ignoring[T any](k *kind[T]) *kind[T] {
	return &kind[T]{k.form, func(text string) (v T, err error) {
		if v, err = k.parse(text); err != nil {
			return v, ignoredError{fmt.Errorf("%s is ignored: want %s", quoteShort(text), k.wants)}
		}
		return v, nil
	}, k.format}
}

// millisecondsFrom is a number of milliseconds from least on. 0 is longestDuration, and so is what is longer.
func millisecondsFrom(least int64) *kind[time.Duration] {
	return &kind[time.Duration]{form{"MS", fmt.Sprintf("whole milliseconds, %d or more", least), plain},
		simple(func(text string) (time.Duration, bool) {
			n, ok := parseWhole(text)
			if n == 0 || n > longestDuration.Milliseconds() {
				return longestDuration, ok && n >= least
			}
			return time.Duration(n) * time.Millisecond, ok
		}),
		func(d time.Duration) string {
			switch d {
			case 0:
				return ""
			case longestDuration:
				return "0"
			}
			return strconv.FormatInt(d.Milliseconds(), 10)
		}}
}

// ignoredError says which part of a value is not used, and why. It is a warning, because queue-proxy only logs it.
type ignoredError struct{ error }

// parseHeaders keeps the last of several fields with the same name. It ignores pairs that are malformed, and names none of their
// values.
func parseHeaders(text string) (headers []otlp.Header, err error) {
	var ignored []error
	for i, pair := range strings.Split(text, ",") {
		name, encoded, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(encoded)
		value = strings.TrimSpace(value)
		if !found || err != nil || !isToken(name) || !isFieldValue(value) {
			ignored = append(ignored, fmt.Errorf("pair %d is ignored: want name=value, percent-encoded", i+1))
			continue
		}
		headers = slices.DeleteFunc(headers, func(h otlp.Header) bool { return strings.EqualFold(h.Name, name) })
		headers = append(headers, otlp.Header{Name: name, Value: value})
	}
	if ignored != nil {
		return headers, ignoredError{errors.Join(ignored...)}
	}
	return headers, nil
}

// isToken is true of the name of a field (RFC 9110 section 5.6.2).
func isToken(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"+lowerAlphanumeric+"!#$%&'*+-.^_`|~") == ""
}

// isFieldValue reports whether text has no control characters other than tabs (RFC 9110 section 5.5).
func isFieldValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// isUsed is false of OpenTelemetry's settings that nothing reads in this configuration. They may be meant for an application that has
// the same environment, so a bad value is then neither a problem nor a warning, as in queue-proxy.
func (l *loader) isUsed(s *setting) bool {
	traceExporter, metricExporter := l.Exporters()
	traces, metrics, isTraced := isOTLP(traceExporter), isOTLP(metricExporter), traceExporter != "none" && traceExporter != ""
	switch s.name {
	case "OTEL_RESOURCE_ATTRIBUTES":
		return traces || metrics
	case "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_PROPAGATORS":
		return isTraced
	case "OTEL_METRIC_EXPORT_INTERVAL":
		return metrics
	case "OTEL_SDK_DISABLED":
		return isTraced || metrics
	}
	switch rest, found := strings.CutPrefix(s.name, otlpPrefix); {
	case !found:
		return true
	case strings.HasPrefix(rest, "TRACES_"):
		return traces
	case strings.HasPrefix(rest, "METRICS_"):
		return metrics
	}
	return traces || metrics
}

// checkSampler reads OTEL_TRACES_SAMPLER_ARG where it means something. As in queue-proxy, a bad one stops the start if it stands alone,
// and counts as unset if it is that of a sampler.
func (l *loader) checkSampler() {
	arg := l.setting("OTEL_TRACES_SAMPLER_ARG")
	if l.OTel.SamplerArg == "" {
		return
	}
	_, err := rate.parse(l.OTel.SamplerArg)
	switch given := l.setting("OTEL_TRACES_SAMPLER"); {
	case len(given.ignored) > 0 || l.OTel.Sampler != "" && !strings.HasSuffix(l.OTel.Sampler, samplerRatio):
		l.OTel.SamplerArg, arg.source = "", fromDefault // it is that of another sampler
	case err != nil && l.OTel.Sampler != "":
		arg.ignored = append(arg.ignored, fmt.Sprintf("%s: %s is ignored: want %s", arg.found, quoteShort(l.OTel.SamplerArg), samplerArg.wants))
		l.OTel.SamplerArg, arg.source = "", fromDefault
	case err != nil:
		l.problem(arg.name, "%w", arg.wantError(l.OTel.SamplerArg, nil))
	}
}

// checkScheme warns of an endpoint without a scheme in an exporter's own setting, which means https and meant clear text
// to earlier versions of the gate.
func (l *loader) checkScheme(name string, signal *OTLP) {
	s := l.setting(name)
	if text := s.value.text(); text != "" && !strings.Contains(text, "://") && signal.Endpoint == "" && l.OTel.Both.Endpoint == "" {
		l.warn("%s=%s means https, as in Knative, and no longer clear text: write http://%s or https://%s", s.found, text, text, text)
	}
}

// checkProtocol warns if a variable names another protocol than that which the exporter's own setting has chosen.
func (l *loader) checkProtocol(what, exporter, chosen, signal string) {
	for _, name := range []string{signal + "PROTOCOL", "PROTOCOL"} {
		s := l.setting(otlpPrefix + name)
		wanted := s.value.text()
		if wanted == "" {
			continue
		}
		if isOTLP(chosen) && wanted != chosen {
			l.warn("%s=%s has no effect: %s are sent over %s, which %s has chosen", s.name, wanted, what, chosen, l.setting(exporter).found)
		}
		return
	}
}
