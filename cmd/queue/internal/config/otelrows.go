package config

import (
	"strings"
)

const (
	otelTitle  = "OpenTelemetry"
	otlpPrefix = "OTEL_EXPORTER_OTLP_"
)

// otelRows returns the OpenTelemetry settings. Each setting of OTLP exporters has three
// rows: one for both signals, one for traces and one for metrics.
func otelRows(c *Config) (rows []row) {
	for _, setting := range []struct {
		name, standard string
		value          func(*OTLP) value
		help           string // noun phrase; " of traces over OTLP." or similar follows
	}{
		{"ENDPOINT", "(none)", func(o *OTLP) value { return endpoint.bind(&o.Endpoint) },
			"Collector"},
		{"PROTOCOL", "(that of the exporter)", func(o *OTLP) value { return otlpProtocol.bind(&o.Protocol) },
			"Protocol"},
		{"HEADERS", "(none)", func(o *OTLP) value { return otlpHeaders.bind(&o.Headers) },
			"Header fields, percent-encoded, that the gate sends to the collector"},
		{"TIMEOUT", "10000", func(o *OTLP) value { return milliseconds.bind(&o.Timeout) },
			"Longest time in milliseconds, 0 = unlimited, for one attempt to reach the collector"},
		{"COMPRESSION", "none", func(o *OTLP) value { return wordKind("gzip", "none").bind(&o.Compression) },
			"Compression of messages to the collector"},
		{"CERTIFICATE", "(those of the system)", func(o *OTLP) value { return certificateFile.bind(&o.Certificate) },
			"File of certificates, in PEM, that verify the collector"},
		{"CLIENT_CERTIFICATE", "(none)", func(o *OTLP) value { return certificateFile.bind(&o.ClientCertificate) },
			"File of the gate's certificate, in PEM, for collectors that require one"},
		{"CLIENT_KEY", "(none)", func(o *OTLP) value { return certificateFile.bind(&o.ClientKey) },
			"File of the key, in PEM, for the client certificate"},
		{"INSECURE", "(as the endpoint says)", func(o *OTLP) value { return wordKind("true", "false").bind(&o.Insecure) },
			"Plaintext (true) or TLS (false) over gRPC to the collector"},
	} {
		for _, signal := range []struct {
			prefix, flag, exported string
			dst                    *OTLP
		}{
			{"", "", "traces and metrics over OTLP", &c.OTel.Shared},
			{"TRACES_", "traces-", "traces over OTLP", &c.OTel.Traces},
			{"METRICS_", "metrics-", "metrics over OTLP", &c.OTel.Metrics},
		} {
			r := row{
				otlpPrefix + signal.prefix + setting.name, "otlp-" + signal.flag + strings.ReplaceAll(strings.ToLower(setting.name), "_", "-"),
				setting.standard, setting.value(signal.dst), setting.help + " of " + signal.exported + ".",
			}
			if signal.prefix != "" {
				r.standard = "(" + otlpPrefix + setting.name + ")"
			}
			switch setting.name {
			case "ENDPOINT":
				r.help += " It takes precedence over TRACING_CONFIG_ZIPKIN_ENDPOINT, METRICS_COLLECTOR_ADDRESS and OBSERVABILITY_CONFIG. " +
					"host:port means https. It does not enable an exporter."
				if signal.prefix == "" {
					r.help += " Over http/protobuf, /v1/traces and /v1/metrics are added to its path."
				}
			case "PROTOCOL":
				r.help += " The exporters are selected by TRACING_CONFIG_BACKEND, SERVING_REQUEST_METRICS_BACKEND and OBSERVABILITY_CONFIG, " +
					"as in Knative; a warning reports a different protocol here."
			case "CLIENT_CERTIFICATE", "CLIENT_KEY":
				r.help += " Certificate and key are used only together."
			case "INSECURE":
				r.help += " It overrides the scheme of endpoints in OTEL_* settings only."
			}
			rows = append(rows, r)
		}
	}
	return append(rows, []row{
		{"OTEL_SERVICE_NAME", "otel-service-name", "(SERVING_SERVICE)", freeText.bind(&c.Identity.ServiceName),
			"service.name of traces and metrics. Default: the first of these that is set: SERVING_SERVICE, SERVING_CONFIGURATION, SERVING_REVISION, " +
				"service.name of OTEL_RESOURCE_ATTRIBUTES."},
		{"OTEL_RESOURCE_ATTRIBUTES", "otel-resource-attributes", "(none)", resourceAttributes.bind(&c.OTel.ResourceAttributes),
			"Attributes of the resource of traces and metrics over OTLP, in addition to the gate's, which take precedence. For Prometheus these attributes are labels of target_info."},
		{"OTEL_TRACES_SAMPLER", "otel-traces-sampler", "(parentbased_traceidratio of TRACING_CONFIG_SAMPLE_RATE)", sampler.bind(&c.OTel.Sampler),
			"Requests that are traced: always_on, always_off, traceidratio (the share OTEL_TRACES_SAMPLER_ARG), or one of these with the prefix parentbased_, " +
				"which follows the sender's decision. It takes precedence over TRACING_CONFIG_SAMPLE_RATE and OBSERVABILITY_CONFIG."},
		{"OTEL_TRACES_SAMPLER_ARG", "otel-traces-sampler-arg", "(1)", samplerArg.bind(&c.OTel.SamplerArg),
			"Share from 0 to 1 of the samplers traceidratio and parentbased_traceidratio. Without OTEL_TRACES_SAMPLER it replaces TRACING_CONFIG_SAMPLE_RATE, and a number above 1 means 1."},
		{"OTEL_PROPAGATORS", "otel-propagators", "(tracecontext, b3 and b3multi, whichever comes)", propagatorNames.bind(&c.OTel.Propagators),
			"Formats of trace context that are read from requests and sent to the container: tracecontext, b3, b3multi; none = spans have no parent " +
				"and headers are forwarded unchanged. Baggage is forwarded in any case."},
		{"OTEL_METRIC_EXPORT_INTERVAL", "otel-metric-export-interval", "60000", exportInterval.bind(&c.MetricsExportInterval),
			"Milliseconds between two messages with metrics over OTLP. It takes precedence over OBSERVABILITY_CONFIG."},
		{"OTEL_SDK_DISABLED", "otel-sdk-disabled", "false", either("false", "true").bind(&c.OTel.Disabled),
			"Trace nothing and send no metrics over OTLP. The Prometheus page is not affected."},
	}...)
}
