package otel

import (
	"fmt"
	"maps"
)

// environment is a test case. Both queue-proxy and the gate run with its variables. Their
// exports must be equal, except for the differences in the field differs.
type environment struct {
	name string
	// set contains environment variables. They are added to those of the map knative,
	// and take precedence. In a value, CERTIFICATES stands for the directory of
	// certificates.
	set map[string]string
	spec
	share   float64               // sampled share of requests without a parent
	differs map[string]difference // fields that differ on purpose; see docs/compatibility.md
	shares  *shares               // separate shares of queue-proxy and the gate; nil = share is for both
}

type difference struct{ theirs, ours string }

type shares struct{ theirs, ours float64 }

func observability(protocol, traces, metrics string, rate float64) string {
	return fmt.Sprintf(`{"tracing":{"protocol":%q,"endpoint":%q,"samplingRate":%v},"requestMetrics":{"protocol":%q,"endpoint":%q,"exportInterval":300000000}}`,
		protocol, traces, rate, protocol, metrics)
}

const prefix = "OTEL_EXPORTER_OTLP_"

// exportOver returns the variables of an environment that exports traces and metrics to
// 127.0.0.1 with the given protocol. The parameter variables contains further names and
// values, alternately. They replace variables of the same name.
func exportOver(protocol string, variables ...string) map[string]string {
	traces, metrics := "http://127.0.0.1:4317", "http://127.0.0.1:4317"
	if protocol == "http/protobuf" {
		traces, metrics = "http://127.0.0.1:4318/own/traces", "http://127.0.0.1:4318/own/metrics"
	}
	set := map[string]string{"OBSERVABILITY_CONFIG": observability(protocol, traces, metrics, 1)}
	for i := 0; i < len(variables); i += 2 {
		set[variables[i]] = variables[i+1]
	}
	return set
}

// sampling returns an environment with a sampling rate in OBSERVABILITY_CONFIG and export
// over gRPC.
func sampling(rate float64, variables ...string) map[string]string {
	set := exportOver("grpc", variables...)
	set["OBSERVABILITY_CONFIG"] = observability("grpc", "http://127.0.0.1:4317", "http://127.0.0.1:4317", rate)
	return set
}

func environments() []environment {
	const http, grpc = "http/protobuf", "grpc"
	few := spec{Requests: 20, Traces: 1, Metrics: 2}
	drained := spec{Requests: 20, Drain: true}
	sampled := spec{Requests: 10_000, Traces: -1, Metrics: 1}
	unsampled := spec{Requests: 10_000, Drain: true}
	ca := file("ca.pem")
	withClient := func(signal, name string) map[string]string {
		return map[string]string{prefix + signal + "CLIENT_CERTIFICATE": file(name + ".pem"), prefix + signal + "CLIENT_KEY": file(name + ".key")}
	}
	join := func(sets ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, set := range sets {
			maps.Copy(all, set)
		}
		return all
	}
	config := func(protocol, traces, metrics string, variables ...string) map[string]string {
		set := exportOver(protocol, variables...)
		set["OBSERVABILITY_CONFIG"] = observability(protocol, traces, metrics, 1)
		return set
	}
	// onlyOurs contains the differences that exist if only the gate exports. onlyTheirs
	// contains the differences that exist if only queue-proxy exports.
	onlyOurs, onlyTheirs := map[string]difference{}, map[string]difference{"metrics: instruments": {something, ""}}
	for _, signal := range []string{"traces", "metrics"} {
		for _, field := range []string{": destination", ": headers", ": resource"} {
			onlyOurs[signal+field], onlyTheirs[signal+field] = difference{"", something}, difference{something, ""}
		}
	}
	but := func(differs map[string]difference, changes ...string) map[string]difference {
		differs = maps.Clone(differs)
		for i := 0; i < len(changes); i += 3 {
			differs[changes[i]] = difference{changes[i+1], changes[i+2]}
		}
		return differs
	}
	none := map[string]difference{}
	return []environment{
		// Endpoints
		{name: "config-observability alone, HTTP", spec: few, set: exportOver(http)},
		{name: "config-observability alone, gRPC", spec: few, set: exportOver(grpc)},
		{name: "config-observability without a path, HTTP", spec: few, set: config(http, "http://127.0.0.1:4318", "http://127.0.0.1:4318/"),
			differs: but(none, "traces: destination", "POST HTTP/1.1 http://127.0.0.1:4318/", "POST HTTP/1.1 http://127.0.0.1:4318/v1/traces",
				"metrics: destination", "POST HTTP/1.1 http://127.0.0.1:4318/", "POST HTTP/1.1 http://127.0.0.1:4318/v1/metrics")},
		{name: "config-observability with a trailing slash, HTTP", spec: few, set: config(http, "http://127.0.0.1:4318/t/", "http://127.0.0.1:4318/m/")},
		{name: "config-observability without a scheme, HTTP", spec: few, set: config(http, "localhost:5318/t", "localhost:5318/m", prefix+"CERTIFICATE", ca)},
		{name: "config-observability without a scheme, gRPC", spec: few, set: config(grpc, "localhost:5317", "localhost:5317", prefix+"CERTIFICATE", ca)},
		{name: "config-observability with an address without a scheme, gRPC", spec: few, set: config(grpc, "127.0.0.1:5317", "127.0.0.1:5317", prefix+"CERTIFICATE", ca),
			differs: but(onlyOurs, "start", "fails", "succeeds")},
		{name: "general endpoint, HTTP", spec: few, set: exportOver(http, prefix+"ENDPOINT", "http://127.0.0.2:4318")},
		{name: "general endpoint with a path and a trailing slash, HTTP", spec: few, set: exportOver(http, prefix+"ENDPOINT", "http://127.0.0.2:4318/base/")},
		{name: "general endpoint, gRPC", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "http://127.0.0.2:4317/base")},
		{name: "endpoint of traces alone, HTTP", spec: few, set: exportOver(http, prefix+"TRACES_ENDPOINT", "http://127.0.0.3:4318/t")},
		{name: "endpoint of metrics alone, gRPC", spec: few, set: exportOver(grpc, prefix+"METRICS_ENDPOINT", "http://127.0.0.4:4317")},
		{name: "endpoints of both signals over the general one, HTTP", spec: few, set: exportOver(http, prefix+"ENDPOINT", "http://127.0.0.2:4318",
			prefix+"TRACES_ENDPOINT", "http://127.0.0.3:4318", prefix+"METRICS_ENDPOINT", "http://127.0.0.4:4318/m/")},
		{name: "endpoint of traces over the general one, gRPC", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "http://127.0.0.2:4317", prefix+"TRACES_ENDPOINT", "http://127.0.0.3:4317")},
		{name: "endpoints with a query, HTTP", spec: few, set: exportOver(http, prefix+"TRACES_ENDPOINT", "http://127.0.0.3:4318/t?key=1", prefix+"METRICS_ENDPOINT", "http://127.0.0.4:4318/m?key=1"),
			differs: but(none, "traces: destination", "POST HTTP/1.1 http://127.0.0.3:4318/t", "POST HTTP/1.1 http://127.0.0.3:4318/t?key=1",
				"metrics: destination", "POST HTTP/1.1 http://127.0.0.4:4318/m", "POST HTTP/1.1 http://127.0.0.4:4318/m?key=1")},
		{name: "general endpoint without a scheme, gRPC", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "localhost:5317", prefix+"CERTIFICATE", ca)},
		{name: "general endpoint without a scheme, HTTP", spec: drained, set: exportOver(http, prefix+"ENDPOINT", "localhost:5318", prefix+"CERTIFICATE", ca),
			differs: but(onlyOurs, "sampled of a sampled parent", something, something, "sampled of an unsampled parent", something, something), shares: &shares{0, 1}},
		{name: "endpoint in capitals and with spaces around it, HTTP", spec: few, set: exportOver(http, prefix+"ENDPOINT", " HTTP://127.0.0.2:4318 ")},
		{name: "insecure, gRPC", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:4317", prefix+"INSECURE", "true")},
		{name: "insecure metrics, gRPC without a scheme", spec: few, set: exportOver(grpc, prefix+"TRACES_ENDPOINT", "http://127.0.0.3:4317", prefix+"METRICS_ENDPOINT", "localhost:4317",
			prefix+"INSECURE", "false", prefix+"TRACES_INSECURE", "true", prefix+"METRICS_INSECURE", "true")},

		// Headers, compression, timeout, protocol
		{name: "headers, HTTP", spec: few, set: exportOver(http, prefix+"HEADERS", "x-tenant=a%20b,X-Mixed-Case= v , broken,=empty,b d=1,x-last=1,x-last=2",
			prefix+"TRACES_HEADERS", "authorization=Basic%20dTpw,x-empty=,user-agent=set-by-environment")},
		{name: "headers, gRPC", spec: few, set: exportOver(grpc, prefix+"HEADERS", "X-Tenant=a%20b,x-equals=a=b", prefix+"METRICS_HEADERS", "authorization=Bearer%20t,x-comma=a%2Cb")},
		{name: "gzip, HTTP", spec: few, set: exportOver(http, prefix+"COMPRESSION", "gzip", prefix+"METRICS_COMPRESSION", "none")},
		{name: "gzip, gRPC", spec: few, set: exportOver(grpc, prefix+"TRACES_COMPRESSION", "gzip")},
		{name: "timeout, HTTP", spec: spec{Requests: 20, Traces: 1, Metrics: 1}, set: exportOver(http, prefix+"ENDPOINT", "http://127.0.0.2:7318", prefix+"TIMEOUT", "2000", prefix+"METRICS_TIMEOUT", "4000")},
		{name: "timeout, gRPC", spec: spec{Requests: 20, Traces: 1, Metrics: 1}, set: exportOver(grpc, prefix+"ENDPOINT", "http://127.0.0.2:7317", prefix+"TIMEOUT", "4000", prefix+"TRACES_TIMEOUT", "2000")},
		{name: "malformed timeout, HTTP", spec: spec{Requests: 20, Traces: 1, Metrics: 1}, set: exportOver(http, prefix+"ENDPOINT", "http://127.0.0.2:7318", prefix+"TIMEOUT", "2s")},
		{name: "another protocol", spec: few, set: exportOver(http, prefix+"PROTOCOL", "grpc")},
		{name: "JSON, HTTP", spec: few, set: exportOver(http, prefix+"PROTOCOL", "http/json"),
			differs: but(onlyTheirs, "start", "succeeds", "fails", "traces: headers", `content-type="application/json"`, "", "metrics: headers", `content-type="application/x-protobuf"`, "")},

		// Certificates
		{name: "certificate, HTTP", spec: few, set: exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:5318", prefix+"CERTIFICATE", ca)},
		{name: "certificates of signals, gRPC", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:5317",
			prefix+"CERTIFICATE", file("client.pem"), prefix+"TRACES_CERTIFICATE", ca, prefix+"METRICS_CERTIFICATE", ca)},
		{name: "certificate that cannot be read", spec: few, set: exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:5318", prefix+"CERTIFICATE", file("missing.pem"), "SSL_CERT_FILE", ca)},
		{name: "certificate of a signal that cannot be read", spec: few, set: exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:5318", prefix+"CERTIFICATE", ca,
			prefix+"TRACES_CERTIFICATE", file("missing.pem"))},
		{name: "certificate for an endpoint with http, gRPC", spec: drained, set: exportOver(grpc, prefix+"ENDPOINT", "http://127.0.0.2:4317", prefix+"CERTIFICATE", ca),
			differs: but(onlyOurs, "sampled of a sampled parent", something, something, "sampled of an unsampled parent", something, something), shares: &shares{0, 1}},
		{name: "client certificate, HTTP", spec: few, set: join(exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:6318", prefix+"CERTIFICATE", ca), withClient("", "client"))},
		{name: "client certificate, gRPC", spec: few, set: join(exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:6317", prefix+"CERTIFICATE", ca), withClient("", "client"))},
		{name: "client certificates of signals, HTTP", spec: few, set: join(exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:6318", prefix+"CERTIFICATE", ca),
			withClient("", "other"), withClient("TRACES_", "client"))},
		{name: "client certificates of signals, gRPC", spec: few, set: join(exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:6317", prefix+"CERTIFICATE", ca),
			withClient("TRACES_", "other"), withClient("METRICS_", "client"))},
		{name: "client certificate without a key", spec: few, set: exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:5318", prefix+"CERTIFICATE", ca,
			prefix+"CLIENT_CERTIFICATE", file("client.pem"))},
		{name: "client certificate with another's key", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:5317", prefix+"CERTIFICATE", ca,
			prefix+"CLIENT_CERTIFICATE", file("client.pem"), prefix+"CLIENT_KEY", file("other.key"))},
		{name: "client certificate and key of different scopes", spec: few, set: exportOver(grpc, prefix+"ENDPOINT", "https://127.0.0.2:5317", prefix+"CERTIFICATE", ca,
			prefix+"CLIENT_CERTIFICATE", file("client.pem"), prefix+"TRACES_CLIENT_KEY", file("client.key"))},
		{name: "client certificate of a signal that cannot be read", spec: few, set: join(exportOver(http, prefix+"ENDPOINT", "https://127.0.0.2:5318", prefix+"CERTIFICATE", ca),
			withClient("", "other"), withClient("METRICS_", "missing"))},

		// Resource
		{name: "resource attributes", spec: few, set: exportOver(http, "OTEL_RESOURCE_ATTRIBUTES",
			"team=a%2Cb%20c, region = eu ,service.name=other,k8s.pod.name=other,dup=1,dup=2,empty=,encoded=%zz,eq=a=b,deployment.environment.name=prod")},
		{name: "resource attributes, one without a value", spec: few, set: exportOver(grpc, "OTEL_RESOURCE_ATTRIBUTES", "novalue,team=a,=nokey")},
		{name: "service name", spec: few, set: exportOver(grpc, "OTEL_SERVICE_NAME", "named", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,service.namespace=ns")},
		{name: "service name of the configuration", spec: few, set: exportOver(http, "SERVING_SERVICE", "", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other")},
		{name: "Prometheus page", spec: spec{Requests: 20, Traces: 1, Page: true}, set: map[string]string{
			"OBSERVABILITY_CONFIG":     `{"tracing":{"protocol":"grpc","endpoint":"http://127.0.0.1:4317","samplingRate":1},"requestMetrics":{"protocol":"prometheus"}}`,
			"OTEL_SERVICE_NAME":        "named",
			"OTEL_RESOURCE_ATTRIBUTES": `team=a%2Cb,deployment.environment.name=prod,quoted=a"b\c,service.name=other,k8s.pod.name=other,weird-key/1=x,1st=y,a.b=1,a_b=2,zone=%0A`}},

		// Export
		{name: "export interval", spec: few, set: join(exportOver(http, "OTEL_METRIC_EXPORT_INTERVAL", "200"), map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"grpc",` +
			`"endpoint":"http://127.0.0.1:4317","samplingRate":1},"requestMetrics":{"protocol":"grpc","endpoint":"http://127.0.0.1:4317","exportInterval":3600000000000}}`})},
		{name: "disabled SDK", spec: drained, set: exportOver(http, "OTEL_SDK_DISABLED", "true"),
			differs: but(onlyTheirs, "sampled of a sampled parent", something, something, "sampled of an unsampled parent", something, something),
			shares:  &shares{1, 0}},

		// Propagation
		{name: "no propagators", spec: spec{Traces: 1, Metrics: 1, Propagation: true}, set: exportOver(http),
			differs: but(none, "application gets b3", `B3="unchanged" Traceparent="00-NEW-NEW-01"`, `B3="TRACE-NEW-1-NEW"`,
				"application gets b3multi", something, `X-B3-Sampled="unchanged" X-B3-Spanid="NEW" X-B3-Traceid="unchanged"`)},
		{name: "propagators tracecontext and baggage", spec: spec{Traces: 1, Metrics: 1, Propagation: true}, set: exportOver(grpc, "OTEL_PROPAGATORS", "tracecontext,baggage")},
		{name: "propagator b3", spec: spec{Traces: 1, Metrics: 1, Propagation: true}, set: exportOver(grpc, "OTEL_PROPAGATORS", "b3"),
			differs: but(none, "application gets nothing", `Traceparent="00-NEW-NEW-01"`, `B3="NEW-NEW-1-NEW"`,
				"application gets b3", `B3="unchanged" Traceparent="00-NEW-NEW-01"`, `B3="TRACE-NEW-1-NEW"`,
				"application gets b3multi", something, something, "application gets traceparent", something, something, "application gets baggage", something, something)},

		// Samplers
		{name: "sampling rate of config-observability", spec: sampled, share: 0.3, set: sampling(0.3)},
		{name: "sampling rate 1", spec: sampled, share: 1, set: sampling(1)},
		{name: "sampling rate 0", spec: unsampled, share: 0, set: sampling(0)},
		{name: "sampling rate omitted", spec: unsampled, share: 0, set: join(exportOver(grpc), map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"grpc",` +
			`"endpoint":"http://127.0.0.1:4317"},"requestMetrics":{"protocol":"grpc","endpoint":"http://127.0.0.1:4317","exportInterval":300000000}}`})},
		{name: "sampler argument 0.2 alone", spec: sampled, shares: &shares{0.3, 0.2}, set: sampling(0.3, "OTEL_TRACES_SAMPLER_ARG", "0.2")},
		{name: "sampler argument 1 alone", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER_ARG", "1")},
		{name: "sampler argument 2 alone", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER_ARG", "2")},
		{name: "sampler always_on", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "always_on", "OTEL_TRACES_SAMPLER_ARG", "0.1")},
		{name: "sampler always_off", spec: unsampled, share: 0, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "always_off")},
		{name: "sampler traceidratio", spec: sampled, share: 0.25, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG", " 0.25 ")},
		{name: "sampler traceidratio 0", spec: unsampled, share: 0, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0")},
		{name: "sampler traceidratio without an argument", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "traceidratio")},
		{name: "sampler traceidratio with a malformed argument", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "1.5")},
		{name: "sampler parentbased_always_on", spec: sampled, share: 1, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "parentbased_always_on")},
		{name: "sampler parentbased_always_off", spec: sampled, share: 0, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "parentbased_always_off")},
		{name: "sampler parentbased_traceidratio", spec: sampled, share: 0.05, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.05")},
		{name: "spans on stdout", spec: spec{Requests: 1000, Drain: true}, shares: &shares{1, 0.3}, set: map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"stdout",` +
			`"samplingRate":0.3},"requestMetrics":{"protocol":"grpc","endpoint":"http://127.0.0.1:4317","exportInterval":300000000}}`},
			differs: but(none, "sampled of an unsampled parent", something, something)},
		{name: "spans on stdout, sampler always_on", spec: spec{Requests: 1000, Drain: true}, share: 1, set: map[string]string{"OTEL_TRACES_SAMPLER": "always_on",
			"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"stdout"},"requestMetrics":{"protocol":"grpc","endpoint":"http://127.0.0.1:4317","exportInterval":300000000}}`}},
		{name: "unknown sampler", spec: sampled, shares: &shares{1, 0.3}, set: sampling(0.3, "OTEL_TRACES_SAMPLER", "jaeger_remote")},
	}
}
