package config

import (
	"cmp"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// OTel holds the settings with the names of OpenTelemetry's variables. They have the
// same meaning as in queue-proxy.
type OTel struct {
	Shared, Traces, Metrics OTLP // zero fields of Traces and Metrics default to Shared

	ResourceAttributes []otlp.KeyValue
	Sampler            string // "" = TRACING_CONFIG_SAMPLE_RATE
	SamplerArg         string // share of traced requests; with samplerRatio, "" means 1
	Propagators        []string
	Disabled           bool // no tracing, and no metrics over OTLP
}

// OTLP configures the exporters of a signal over OTLP.
type OTLP struct {
	Endpoint    string // "" = the endpoint of the exporter's Knative setting
	Protocol    string // no effect; a warning is logged if the exporter uses another
	Headers     []otlp.Header
	Timeout     time.Duration // timeout of one attempt; longestDuration = none
	Compression string        // gzip or none
	Certificate string        // PEM file with certificates; "" = the system's
	Insecure    string        // "true", "false", or "" = derived from the endpoint

	ClientCertificate, ClientKey string // PEM files; both or neither
}

// TLSFiles are the PEM files for the connection to the collector of a signal. In each
// list, the files set for this signal come before the files set for both signals. The
// first valid entry of a list is used, as in queue-proxy.
type TLSFiles struct {
	Certificates []string // PEM files that verify the collector; none = the system's certificates
	Clients      []ClientFiles
}

// ClientFiles are the files of a client certificate and its key.
type ClientFiles struct{ Certificate, Key string }

// isOTLP reports whether an exporter sends OTLP.
func isOTLP(exporter string) bool {
	return exporter == otlp.ProtocolGRPC || exporter == otlp.ProtocolHTTP
}

// Exporters returns the active exporters of traces and metrics.
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

// Sampling returns the share of requests that are traced. ignoresParent reports whether
// the share also applies to requests whose sender has made a sampling decision. Without
// a Sampler, ignoresParent is true if the share is 1. It is also true if the share is 0
// and the exporter is not Zipkin, as in queue-proxy.
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
		share, _ = rate.parse(cmp.Or(c.OTel.SamplerArg, "1")) // checkSampler has checked it
	default:
		share = c.Tracing.SamplingRate
		if c.OTel.SamplerArg != "" {
			share, _ = rate.parse(c.OTel.SamplerArg)
		}
		isParentBased = share < 1 && (share > 0 || c.Tracing.Protocol == "zipkin")
	}
	return share, !isParentBased
}

// Samplers. Each also exists with the prefix parentBased.
const (
	samplerOn    = "always_on"
	samplerOff   = "always_off"
	samplerRatio = "traceidratio"
	parentBased  = "parentbased_"
)

// propagators maps names to formats of trace context.
var propagators = map[string]gate.TraceFormats{"tracecontext": gate.W3C, "b3": gate.B3Single, "b3multi": gate.B3Multi, "baggage": 0, "none": 0}

// Propagation returns the trace context formats that the gate reads and sends. If isOff
// is true, it uses no format. If isOff is false and formats is 0, it uses all formats.
func (c *Config) Propagation() (formats gate.TraceFormats, isOff bool) {
	for _, name := range c.OTel.Propagators {
		formats |= propagators[name]
	}
	return formats, c.OTel.Propagators != nil && formats == 0
}

// TracesOverOTLP returns the destination of traces, and the files for TLS.
func (c *Config) TracesOverOTLP() (to otlp.Destination, files TLSFiles) {
	return c.OTel.destination(&c.OTel.Traces, otlp.Traces.Path, c.Tracing.Protocol, c.Tracing.Endpoint)
}

// MetricsOverOTLP is TracesOverOTLP for metrics.
func (c *Config) MetricsOverOTLP() (to otlp.Destination, files TLSFiles) {
	return c.OTel.destination(&c.OTel.Metrics, otlp.Metrics.Path, c.MetricsBackend, c.MetricsCollector)
}

// destination returns the destination of a signal (OTLP exporter specification 1.51).
// The signal's own endpoint takes precedence over the endpoint for both signals. Over
// HTTP, the path is appended to the endpoint for both signals, but not to the signal's
// own. Over gRPC, the setting Insecure replaces the scheme of both kinds of endpoint. If
// no endpoint is set, the fallback is used unchanged.
func (o *OTel) destination(signal *OTLP, path, protocol, fallback string) (to otlp.Destination, files TLSFiles) {
	to = otlp.Destination{Protocol: protocol, Endpoint: fallback, Options: otlp.Options{
		Headers: signal.Headers, Timeout: cmp.Or(signal.Timeout, o.Shared.Timeout),
		Gzip: cmp.Or(signal.Compression, o.Shared.Compression) == "gzip",
	}}
	if to.Headers == nil {
		to.Headers = o.Shared.Headers
	}
	for _, from := range []*OTLP{signal, &o.Shared} {
		if from.Certificate != "" {
			files.Certificates = append(files.Certificates, from.Certificate)
		}
		if from.ClientCertificate != "" && from.ClientKey != "" {
			files.Clients = append(files.Clients, ClientFiles{from.ClientCertificate, from.ClientKey})
		}
	}
	endpoint := cmp.Or(signal.Endpoint, o.Shared.Endpoint)
	if endpoint == "" {
		return to, files
	}
	u, err := otlp.ParseEndpoint(endpoint, "", false)
	if err != nil {
		panic("BUG: " + err.Error()) // the settings have been validated
	}
	if signal.Endpoint == "" && protocol == otlp.ProtocolHTTP {
		u = u.JoinPath(path)
	}
	if insecure := cmp.Or(signal.Insecure, o.Shared.Insecure); insecure != "" && protocol == otlp.ProtocolGRPC {
		u.Scheme = map[string]string{"true": "http", "false": "https"}[insecure]
	}
	to.Endpoint, to.IsExact = u.String(), true
	return to, files
}
