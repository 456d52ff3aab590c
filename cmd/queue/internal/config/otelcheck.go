package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// isUsed is false of OpenTelemetry's settings that nothing reads in this configuration. They may be meant for an application that has
// the same environment, so a bad value is then neither a problem nor a warning, as in queue-proxy.
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

// checkClient warns of a client certificate without a key, and the other way round.
func (l *loader) checkClient(signal string, o *OTLP) {
	given, missing := otlpPrefix+signal+"CLIENT_CERTIFICATE", otlpPrefix+signal+"CLIENT_KEY"
	if o.ClientCertificate == "" {
		given, missing = missing, given
	}
	if s := l.setting(given); (o.ClientCertificate == "") != (o.ClientKey == "") && l.isUsed(s) {
		l.warn("%s=%s is ignored: want %s as well", s.found, s.value.text(), missing)
	}
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
		destination                      func() (otlp.Destination, TLSFiles)
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
