package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// isUsed returns false for an OpenTelemetry setting that has no effect in this
// configuration. Its value is not checked, because it may be meant for the application.
func (l *loader) isUsed(s *setting) bool {
	traceExporter, metricExporter := l.Exporters()
	traces, metrics, isTraced := isOTLP(traceExporter), isOTLP(metricExporter), traceExporter != "none" && traceExporter != ""
	switch s.name {
	case "OTEL_RESOURCE_ATTRIBUTES":
		return traces || metrics || metricExporter == "prometheus"
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

// checkSampler checks OTEL_TRACES_SAMPLER_ARG, as queue-proxy does. An invalid value
// counts as unset if OTEL_TRACES_SAMPLER is set. Otherwise a number above 1 counts as 1,
// and any other invalid value is an error.
func (l *loader) checkSampler() {
	arg := l.setting("OTEL_TRACES_SAMPLER_ARG")
	if l.OTel.SamplerArg == "" {
		return
	}
	_, err := rate.parse(l.OTel.SamplerArg)
	switch given := l.setting("OTEL_TRACES_SAMPLER"); {
	case len(given.ignored) > 0 || l.OTel.Sampler != "" && !strings.HasSuffix(l.OTel.Sampler, samplerRatio):
		l.OTel.SamplerArg, arg.source = "", fromDefault // not used by this sampler
	case err != nil && l.OTel.Sampler != "":
		arg.ignored = append(arg.ignored, fmt.Sprintf("%s: %s is ignored: want %s", arg.found, quoteShort(l.OTel.SamplerArg), samplerArg.wants))
		l.OTel.SamplerArg, arg.source = "", fromDefault
	case err != nil && aboveOne(l.OTel.SamplerArg):
		l.OTel.SamplerArg = "1" // as in queue-proxy
	case err != nil:
		l.problem(arg.name, "%w", arg.wantError(l.OTel.SamplerArg, nil))
	}
}

func aboveOne(text string) bool {
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && number > 1
}

// checkScheme warns about an endpoint without a scheme in a Knative setting. Such an
// endpoint means https now, but it meant plaintext in earlier versions of the gate.
func (l *loader) checkScheme(name string, signal *OTLP) {
	s := l.setting(name)
	if text := s.value.text(); text != "" && !strings.Contains(text, "://") && signal.Endpoint == "" && l.OTel.Shared.Endpoint == "" {
		l.warn("%s=%s means https, as in Knative, and no longer plaintext: write http://%s or https://%s", s.found, text, text, text)
	}
}

// checkProtocol warns if a variable contradicts the exporter's protocol.
func (l *loader) checkProtocol(plural, exporter, chosen, prefix string) {
	for _, name := range []string{prefix + "PROTOCOL", "PROTOCOL"} {
		s := l.setting(otlpPrefix + name)
		wanted := s.value.text()
		if wanted == "" {
			continue
		}
		if isOTLP(chosen) && wanted != chosen {
			l.warn("%s=%s has no effect: %s are sent over %s, as set by %s", s.name, wanted, plural, chosen, l.setting(exporter).found)
		}
		return
	}
}

// checkClient warns about a client certificate without a key, and a key without
// a certificate.
func (l *loader) checkClient(prefix string, o *OTLP) {
	present, missing := otlpPrefix+prefix+"CLIENT_CERTIFICATE", otlpPrefix+prefix+"CLIENT_KEY"
	if o.ClientCertificate == "" {
		present, missing = missing, present
	}
	if s := l.setting(present); (o.ClientCertificate == "") != (o.ClientKey == "") && l.isUsed(s) {
		l.warn("%s=%s is ignored: want %s as well", s.found, s.value.text(), missing)
	}
}

// writeExports writes a comment line about each exporter in use.
func (c *Config) writeExports(b *strings.Builder) {
	if c.OTel.Disabled {
		b.WriteString("# No traces and no metrics over OTLP (source: OTEL_SDK_DISABLED)\n")
	}
	// first returns the name of the variable or flag that sets one of the settings. If
	// several settings are set, the first of them counts. If none of them is set, the
	// result is "default".
	first := func(names ...string) string {
		i := slices.IndexFunc(names, c.IsSet)
		if i < 0 {
			return "default"
		}
		if s := c.setting(names[i]); s.source == fromEnvironment {
			return s.found
		}
		return "--" + c.setting(names[i]).flag
	}
	traces, metrics := c.Exporters()
	for _, export := range []struct {
		plural, prefix, exporter, endpoint string
		isUsed                             bool
		destination                        func() (otlp.Destination, TLSFiles)
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
		fmt.Fprintf(b, "# %s are sent over %s (source: %s) to %s (source: %s)\n", export.plural, to.Protocol, first(export.exporter), oneLine(shown),
			first(otlpPrefix+export.prefix+"ENDPOINT", otlpPrefix+"ENDPOINT", export.endpoint))
	}
	if traces != "none" {
		share, ignoresParent := c.Sampling()
		scope := "of the requests whose sender made no sampling decision"
		if ignoresParent {
			scope = "of all requests"
		}
		fmt.Fprintf(b, "# A share of %s %s is traced (source: %s)\n", rate.format(share), scope,
			first("TRACING_CONFIG_DEBUG", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "TRACING_CONFIG_SAMPLE_RATE"))
	}
}
