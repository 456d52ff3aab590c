package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// exporting sends traces and metrics over OTLP.
var exporting = map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"http/protobuf","endpoint":"http://traces:4318/own"},` +
	`"requestMetrics":{"protocol":"http/protobuf","endpoint":"http://metrics:4318/own"}}`}

// exportingGRPC is exporting over gRPC.
var exportingGRPC = map[string]string{"OBSERVABILITY_CONFIG": strings.ReplaceAll(exporting["OBSERVABILITY_CONFIG"], "http/protobuf", "grpc")}

func TestASignalsEndpointTakesPrecedenceOverTheGeneralEndpoint(t *testing.T) {
	const general, traces, metrics = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	for _, c := range []struct {
		set                 []string
		wantTraces          string
		wantMetrics         string
		isExactT, isExactMs bool
	}{
		{nil, "http://traces:4318/own", "http://metrics:4318/own", false, false},
		{[]string{general, "http://all:4318"}, "http://all:4318/v1/traces", "http://all:4318/v1/metrics", true, true},
		{[]string{general, "https://all/base/"}, "https://all/base/v1/traces", "https://all/base/v1/metrics", true, true},
		{[]string{general, "all:4318"}, "https://all:4318/v1/traces", "https://all:4318/v1/metrics", true, true},
		{[]string{traces, "http://t:1/x"}, "http://t:1/x", "http://metrics:4318/own", true, false},
		{[]string{traces, "http://t:1"}, "http://t:1", "http://metrics:4318/own", true, false},
		{[]string{metrics, "http://m:1/x/"}, "http://traces:4318/own", "http://m:1/x/", false, true},
		{[]string{general, "http://all:4318", metrics, "http://m:1/x"}, "http://all:4318/v1/traces", "http://m:1/x", true, true},
		{[]string{general, " http://all:4318\n", traces, " "}, "http://all:4318/v1/traces", "http://all:4318/v1/metrics", true, true},
		{[]string{general, "http://all:4318", "TRACING_CONFIG_ZIPKIN_ENDPOINT", "http://t", "METRICS_COLLECTOR_ADDRESS", "http://m"},
			"http://all:4318/v1/traces", "http://all:4318/v1/metrics", true, true},
	} {
		cfg := mustLoad(t, nil, with(exporting, c.set...))
		forTraces, _ := cfg.TracesOverOTLP()
		forMetrics, _ := cfg.MetricsOverOTLP()
		if forTraces.Endpoint != c.wantTraces || forTraces.IsExact != c.isExactT || forMetrics.Endpoint != c.wantMetrics || forMetrics.IsExact != c.isExactMs {
			t.Errorf("%q: traces to %+v, metrics to %+v", c.set, forTraces, forMetrics)
		}
	}
}

func TestAnEndpointWithoutASchemeMayHaveAPath(t *testing.T) {
	cfg := mustLoad(t, nil, map[string]string{"OBSERVABILITY_CONFIG": strings.ReplaceAll(exporting["OBSERVABILITY_CONFIG"], "http://", "")})
	traces, _ := cfg.TracesOverOTLP()
	metrics, _ := cfg.MetricsOverOTLP()
	if traces.Endpoint != "traces:4318/own" || metrics.Endpoint != "metrics:4318/own" {
		t.Errorf("traces to %+v, metrics to %+v", traces, metrics)
	}
	cfg = mustLoad(t, nil, with(exporting, "OTEL_EXPORTER_OTLP_ENDPOINT", "[::1]:4318/base?x=/"))
	if to, _ := cfg.TracesOverOTLP(); to.Endpoint != "https://[::1]:4318/base/v1/traces?x=/" {
		t.Errorf("traces to %+v", to)
	}
}

func TestAnEndpointFromTheEnvironmentSufficesButDoesNotEnableTheExport(t *testing.T) {
	cfg := mustLoad(t, nil, map[string]string{"TRACING_CONFIG_BACKEND": "grpc", "SERVING_REQUEST_METRICS_BACKEND": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4317"})
	if to, _ := cfg.TracesOverOTLP(); to.Protocol != "grpc" || !strings.HasPrefix(to.Endpoint, "http://all:4317") {
		t.Errorf("traces go to %+v", to)
	}
	cfg = mustLoad(t, nil, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
	if cfg.Tracing.Protocol != "none" || cfg.MetricsBackend != "prometheus" {
		t.Errorf("traces over %s, metrics over %s", cfg.Tracing.Protocol, cfg.MetricsBackend)
	}
}

func TestTheInsecureVariableOverridesTheSchemeOfAnEndpointVariableOnlyOverGRPC(t *testing.T) {
	for _, c := range []struct {
		from               map[string]string
		endpoint, insecure string
		want               string
	}{
		{exportingGRPC, "c:4317", "", "https://c:4317"},
		{exportingGRPC, "c:4317", "true", "http://c:4317"},
		{exportingGRPC, "c:4317", "false", "https://c:4317"},
		{exportingGRPC, "https://c:4317", "true", "http://c:4317"},
		{exportingGRPC, "http://c:4317", "", "http://c:4317"},
		{exportingGRPC, "http://c:4317", "false", "https://c:4317"},
		{exportingGRPC, "", "false", "http://traces:4318/own"},
		{exporting, "https://c:4318", "true", "https://c:4318/v1/traces"},
	} {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_TRACES_INSECURE"} {
			cfg := mustLoad(t, nil, with(c.from, "OTEL_EXPORTER_OTLP_ENDPOINT", c.endpoint, name, c.insecure))
			if to, _ := cfg.TracesOverOTLP(); to.Endpoint != c.want {
				t.Errorf("%s, %s=%s: %s, want %s", c.endpoint, name, c.insecure, to.Endpoint, c.want)
			}
		}
	}
}

func TestOTLPOptionsOfOneSignalTakePrecedenceOverGeneralOptions(t *testing.T) {
	both := []string{"OTEL_EXPORTER_OTLP_HEADERS", "a=1", "OTEL_EXPORTER_OTLP_TIMEOUT", "1500", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "OTEL_EXPORTER_OTLP_CERTIFICATE", "both.pem",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "both.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "both.key"}
	ofTraces := []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2,B=3", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none",
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "traces.pem", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "traces.pem", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "traces.key"}
	cfg := mustLoad(t, nil, with(exporting, slices.Concat(both, ofTraces)...))
	traces, tracesFiles := cfg.TracesOverOTLP()
	metrics, metricsFiles := cfg.MetricsOverOTLP()
	if want := (otlp.Options{Headers: []otlp.Header{{Name: "B", Value: "3"}}, Timeout: 7 * time.Millisecond}); !reflect.DeepEqual(traces.Options, want) || !slices.Equal(tracesFiles.Certificates, []string{"traces.pem", "both.pem"}) ||
		!slices.Equal(tracesFiles.Clients, []ClientFiles{{"traces.pem", "traces.key"}, {"both.pem", "both.key"}}) {
		t.Errorf("traces: %+v, %s", traces.Options, tracesFiles)
	}
	if want := (otlp.Options{Headers: []otlp.Header{{Name: "a", Value: "1"}}, Timeout: 1500 * time.Millisecond, Gzip: true}); !reflect.DeepEqual(metrics.Options, want) || !slices.Equal(metricsFiles.Certificates, []string{"both.pem"}) ||
		!slices.Equal(metricsFiles.Clients, []ClientFiles{{"both.pem", "both.key"}}) {
		t.Errorf("metrics: %+v, %s", metrics.Options, metricsFiles)
	}
}

func TestAClientCertificateWithoutAKeyIsIgnoredWithAWarning(t *testing.T) {
	for _, c := range []struct{ name, other string }{
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY"},
		{"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE"},
		{"OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY"},
	} {
		cfg, _, warnings, err := load(nil, with(exporting, c.name, "one.pem"))
		if want := []string{c.name + "=one.pem is ignored: want " + c.other + " as well"}; err != nil || !slices.Equal(warnings, want) {
			t.Errorf("%v, warnings %q, want %q", err, warnings, want)
		}
		if _, files := cfg.TracesOverOTLP(); files.Clients != nil {
			t.Errorf("%s: %v", c.name, files.Clients)
		}
		if _, _, warnings, err := load(nil, with(nil, c.name, "one.pem")); err != nil || warnings != nil {
			t.Errorf("without an exporter: %v, warnings %q", err, warnings)
		}
	}
}

func TestIgnoredPartsOfOpenTelemetryVariablesCauseWarnings(t *testing.T) {
	cfg, _, warnings, err := load(nil, with(exporting, "OTEL_EXPORTER_OTLP_HEADERS", "a=1, b b=SECRET,=SECRET,c=%SECRET,SECRET,d=SECRET%0ASECRET, e = x%2Cy ",
		"OTEL_EXPORTER_OTLP_TIMEOUT", "-5", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"OTEL_EXPORTER_OTLP_HEADERS: pair 2 is ignored: want name=value, percent-encoded",
		"OTEL_EXPORTER_OTLP_HEADERS: pair 3 is ignored: want name=value, percent-encoded",
		"OTEL_EXPORTER_OTLP_HEADERS: pair 4 is ignored: want name=value, percent-encoded",
		"OTEL_EXPORTER_OTLP_HEADERS: pair 5 is ignored: want name=value, percent-encoded",
		"OTEL_EXPORTER_OTLP_HEADERS: pair 6 is ignored: want name=value, percent-encoded",
		`OTEL_EXPORTER_OTLP_TIMEOUT: "-5" is ignored: want whole milliseconds, 0 or more`,
		`OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "10s" is ignored: want whole milliseconds, 0 or more`,
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("got  %q\nwant %q", warnings, want)
	}
	to, _ := cfg.TracesOverOTLP()
	if want := []otlp.Header{{Name: "a", Value: "1"}, {Name: "e", Value: "x,y"}}; !slices.Equal(to.Headers, want) || to.Timeout != 10*time.Second {
		t.Errorf("got %+v", to)
	}
}

func TestSettingsOfDisabledExportersAreNotChecked(t *testing.T) {
	bad := []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "OTEL_EXPORTER_OTLP_TIMEOUT", "x",
		"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd", "OTEL_EXPORTER_OTLP_METRICS_INSECURE", "maybe"}
	for _, off := range []map[string]string{nil, {"TRACING_CONFIG_BACKEND": "stdout"}, knativeEnvironment} {
		if _, _, warnings, err := load(nil, with(off, bad...)); err != nil || warnings != nil {
			t.Errorf("%v, warnings %q", err, warnings)
		}
	}
	if problems := problemsOf(t, nil, with(exporting, bad...)); len(problems) != 4 {
		t.Errorf("got %q", problems)
	}
	onlyTraces := map[string]string{"TRACING_CONFIG_BACKEND": "grpc", "TRACING_CONFIG_ZIPKIN_ENDPOINT": "http://t"}
	if problems := problemsOf(t, nil, with(onlyTraces, bad...)); len(problems) != 3 {
		t.Errorf("got %q", problems)
	}
}

func TestAProtocolVariableThatDiffersFromTheExportersProtocolCausesAWarning(t *testing.T) {
	for _, c := range []struct {
		from map[string]string
		set  []string
		want []string
	}{
		{exporting, []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, nil},
		{exporting, []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"},
			[]string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc has no effect: traces are sent over http/protobuf, as set by OBSERVABILITY_CONFIG tracing.protocol"}},
		{exportingGRPC, []string{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf", "SERVING_REQUEST_METRICS_BACKEND", "grpc"},
			[]string{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf has no effect: metrics are sent over grpc, as set by SERVING_REQUEST_METRICS_BACKEND"}},
		{nil, []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, nil},
	} {
		if _, _, warnings, err := load(nil, with(c.from, c.set...)); err != nil || !slices.Equal(warnings, c.want) {
			t.Errorf("%q: %v, warnings %q", c.set, err, warnings)
		}
	}
}

func TestHeadersAreNeverPrintedWithTheirValues(t *testing.T) {
	cfg := mustLoad(t, nil, with(exporting, "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20SECRET", "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-key=SECRET"))
	var out bytes.Buffer
	if err := WriteCheck(&out, cfg); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "SECRET") || !strings.Contains(text, "\nOTEL_EXPORTER_OTLP_HEADERS=authorization=•••  (source: environment)\n") {
		t.Errorf("printed:\n%s", text)
	}
}

func TestResourceAttributesAreDecoded(t *testing.T) {
	cfg, _, warnings, err := load(nil, with(exporting, "OTEL_RESOURCE_ATTRIBUTES", " team = a%2Cb%20c ,x,=y,bad=%zz,k=v=w,k="))
	if err != nil {
		t.Fatal(err)
	}
	if want := []otlp.KeyValue{{Key: "team", Value: "a,b c"}, {Key: "bad", Value: "%zz"}, {Key: "k", Value: "v=w"}, {Key: "k"}}; !slices.Equal(cfg.OTel.ResourceAttributes, want) {
		t.Errorf("got  %q\nwant %q", cfg.OTel.ResourceAttributes, want)
	}
	want := []string{`OTEL_RESOURCE_ATTRIBUTES: "x" is ignored: want key=value`, `OTEL_RESOURCE_ATTRIBUTES: "=y" is ignored: want key=value`,
		`OTEL_RESOURCE_ATTRIBUTES: "bad=%zz" is used unchanged: want a percent-encoded value`}
	if !slices.Equal(warnings, want) {
		t.Errorf("warnings %q", warnings)
	}
	again := mustLoad(t, nil, readCheck(t, checkOutput(t, cfg)))
	if !slices.Equal(again.OTel.ResourceAttributes, cfg.OTel.ResourceAttributes) {
		t.Errorf("printed and read back: %q", again.OTel.ResourceAttributes)
	}
}

func TestTheSamplerFromTheEnvironmentTakesPrecedence(t *testing.T) {
	for _, c := range []struct {
		sampler, arg  string
		share         float64
		ignoresParent bool
		warning       string
	}{
		{"", "", 0.3, false, ""},
		{"always_on", "x", 1, true, ""},
		{"always_off", "", 0, true, ""},
		{"traceidratio", "0.25", 0.25, true, ""},
		{"traceidratio", "", 1, true, ""},
		{"parentbased_always_on", "0.1", 1, false, ""},
		{"parentbased_always_off", "", 0, false, ""},
		{"PARENTBASED_TRACEIDRATIO", "0.25", 0.25, false, ""},
		{"parentbased_traceidratio", "1.5", 1, false, `OTEL_TRACES_SAMPLER_ARG: "1.5" is ignored: want a number from 0 to 1`},
		{"", "0.25", 0.25, false, ""},
		{"", "1.5", 1, true, ""},
		{"jaeger_remote", "endpoint=http://j", 0.3, false, `OTEL_TRACES_SAMPLER: "jaeger_remote" is ignored: want always_on, always_off, traceidratio, ` +
			`parentbased_always_on, parentbased_always_off or parentbased_traceidratio`},
	} {
		cfg, _, warnings, err := load(nil, map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"stdout","samplingRate":0.3}}`,
			"OTEL_TRACES_SAMPLER": c.sampler, "OTEL_TRACES_SAMPLER_ARG": c.arg})
		if err != nil {
			t.Fatal(err)
		}
		if share, ignoresParent := cfg.Sampling(); share != c.share || ignoresParent != c.ignoresParent || strings.Join(warnings, "\n") != c.warning {
			t.Errorf("%s, %s: %v, %t, warnings %q", c.sampler, c.arg, share, ignoresParent, warnings)
		}
	}
}

func TestASamplingRateOf0Or1IgnoresTheSendersDecision(t *testing.T) {
	for _, c := range []struct {
		protocol, rate, sampler, arg string
		share                        float64
		ignoresParent                bool
	}{
		{"grpc", "1", "", "", 1, true}, {"grpc", "0", "", "", 0, true}, {"grpc", "0.999", "", "", 0.999, false}, {"grpc", "0.001", "", "", 0.001, false},
		{"grpc", "0.3", "", "1", 1, true}, {"grpc", "0.3", "", "0", 0, true}, {"grpc", "1", "", "0.3", 0.3, false}, {"grpc", "0", "", "0.3", 0.3, false},
		{"grpc", "0.3", "unknown", "1", 0.3, false}, {"grpc", "1", "parentbased_always_off", "", 0, false}, {"grpc", "1", "parentbased_traceidratio", "1", 1, false},
		{"http/protobuf", "0", "", "", 0, true}, {"stdout", "1", "", "", 1, true},
		{"zipkin", "1", "", "", 1, true}, {"zipkin", "0", "", "", 0, false}, // as in OpenCensus
	} {
		cfg := mustLoad(t, nil, map[string]string{"TRACING_CONFIG_BACKEND": c.protocol, "TRACING_CONFIG_ZIPKIN_ENDPOINT": "http://t", "TRACING_CONFIG_SAMPLE_RATE": c.rate,
			"OTEL_TRACES_SAMPLER": c.sampler, "OTEL_TRACES_SAMPLER_ARG": c.arg})
		if share, ignoresParent := cfg.Sampling(); share != c.share || ignoresParent != c.ignoresParent {
			t.Errorf("%+v: %v, ignores parents: %t", c, share, ignoresParent)
		}
	}
}

func TestPropagatorsThatTheGateLacksAreIgnored(t *testing.T) {
	for _, c := range []struct {
		text    string
		formats gate.TraceFormats
		isOff   bool
		ignored int
	}{
		{"", 0, false, 0}, {"tracecontext,baggage", gate.W3C, false, 0}, {" b3 , b3multi,b3", gate.B3Single | gate.B3Multi, false, 0},
		{"none", 0, true, 0}, {"baggage", 0, true, 0}, {"xray,tracecontext", gate.W3C, false, 1}, {"xray,jaeger", 0, false, 2},
	} {
		cfg, _, warnings, err := load(nil, map[string]string{"TRACING_CONFIG_BACKEND": "stdout", "OTEL_PROPAGATORS": c.text})
		if err != nil {
			t.Fatal(err)
		}
		if formats, isOff := cfg.Propagation(); formats != c.formats || isOff != c.isOff || len(warnings) != c.ignored {
			t.Errorf("%q: %b, off %t, warnings %q", c.text, formats, isOff, warnings)
		}
	}
}

func TestTheExportIntervalFromTheEnvironmentTakesPrecedence(t *testing.T) {
	for _, c := range []struct {
		json, variable string
		want           time.Duration
		warnings       int
	}{
		{"0", "", time.Minute, 0}, {"30000000000", "", 30 * time.Second, 0}, {"1", "", time.Millisecond, 0}, {"30000000000", "1500", 1500 * time.Millisecond, 0},
		{"30000000000", "0", time.Minute, 1}, {"30000000000", "10s", time.Minute, 1}, // as in queue-proxy
	} {
		cfg, _, warnings, err := load(nil, map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": c.variable,
			"OBSERVABILITY_CONFIG": `{"requestMetrics":{"protocol":"grpc","endpoint":"http://m","exportInterval":` + c.json + `}}`})
		if err != nil || cfg.MetricsExportInterval != c.want || len(warnings) != c.warnings {
			t.Errorf("%+v: %v, warnings %q, %v", c, cfg, warnings, err)
		}
	}
}

func TestADisabledSDKKeepsThePrometheusPage(t *testing.T) {
	for _, c := range []struct {
		from            map[string]string
		traces, metrics string
	}{
		{exporting, "none", "none"}, {map[string]string{"TRACING_CONFIG_BACKEND": "stdout"}, "none", "prometheus"},
	} {
		cfg := mustLoad(t, nil, with(c.from, "OTEL_SDK_DISABLED", "TRUE", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"))
		if traces, metrics := cfg.Exporters(); traces != c.traces || metrics != c.metrics {
			t.Errorf("traces by %s, metrics by %s", traces, metrics)
		}
	}
}

func TestCheckPrintsTheEffectiveExportDestinationsAndSampling(t *testing.T) {
	for _, c := range []struct {
		args      []string
		variables map[string]string
		want      []string
		lack      string
	}{
		{nil, exporting, []string{
			"TRACING_CONFIG_BACKEND=http/protobuf  (source: environment, OBSERVABILITY_CONFIG tracing.protocol)",
			"OTEL_EXPORTER_OTLP_TIMEOUT=10000  (source: default)",
			"OTEL_METRIC_EXPORT_INTERVAL=60000  (source: default)",
			"# Traces are sent over http/protobuf (source: OBSERVABILITY_CONFIG tracing.protocol) to http://traces:4318/own (source: OBSERVABILITY_CONFIG tracing.endpoint)",
			"# Metrics are sent over http/protobuf (source: OBSERVABILITY_CONFIG requestMetrics.protocol) to http://metrics:4318/own (source: OBSERVABILITY_CONFIG requestMetrics.endpoint)",
			"# A share of 0 of all requests is traced (source: OBSERVABILITY_CONFIG)",
		}, "SDK_DISABLED)"},
		{[]string{"--otlp-metrics-endpoint=http://u:SECRET@m:1"}, with(exporting, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://all", "OTEL_TRACES_SAMPLER", "always_on"), []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://all  (source: environment)",
			"OTEL_TRACES_SAMPLER=always_on  (source: environment)",
			"# Traces are sent over http/protobuf (source: OBSERVABILITY_CONFIG tracing.protocol) to http://all/v1/traces (source: OTEL_EXPORTER_OTLP_ENDPOINT)",
			"# Metrics are sent over http/protobuf (source: OBSERVABILITY_CONFIG requestMetrics.protocol) to http://u:xxxxx@m:1 (source: --otlp-metrics-endpoint)",
			"# A share of 1 of all requests is traced (source: OTEL_TRACES_SAMPLER)",
		}, "SDK_DISABLED)"},
		{nil, with(exporting, "OTEL_SDK_DISABLED", "true"), []string{"# No traces and no metrics over OTLP (source: OTEL_SDK_DISABLED)"}, "are sent"},
		{nil, with(exporting, "OTEL_TRACES_SAMPLER", "jaeger_remote", "OTEL_TRACES_SAMPLER_ARG", "x"), []string{
			"OTEL_TRACES_SAMPLER=  (source: default)", "OTEL_TRACES_SAMPLER_ARG=  (source: default)",
			"# A share of 0 of all requests is traced (source: OBSERVABILITY_CONFIG)"}, "jaeger"},
		{nil, with(exporting, "TRACING_CONFIG_DEBUG", "true", "OTEL_TRACES_SAMPLER", "always_off"), []string{
			"# A share of 1 of all requests is traced (source: TRACING_CONFIG_DEBUG)"}, "A share of 0"},
		{nil, nil, []string{"OTEL_TRACES_SAMPLER=  (source: default)"}, "are sent"},
	} {
		out := checkOutput(t, mustLoad(t, c.args, c.variables))
		for _, line := range c.want {
			if !strings.Contains("\n"+out, "\n"+line+"\n") {
				t.Errorf("%q: there is no line %q in:\n%s", c.args, line, out)
			}
		}
		if strings.Contains(out, c.lack) {
			t.Errorf("%q: %q is in:\n%s", c.args, c.lack, out)
		}
	}
}

func TestAnEndpointWithoutASchemeMeansHTTPSAndCausesAWarning(t *testing.T) {
	bare := map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"grpc","endpoint":"t:4317"}}`,
		"SERVING_REQUEST_METRICS_BACKEND": "http/protobuf", "METRICS_COLLECTOR_ADDRESS": "m:4318"}
	cfg, _, warnings, err := load(nil, bare)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"OBSERVABILITY_CONFIG tracing.endpoint=t:4317 means https, as in Knative, and no longer plaintext: write http://t:4317 or https://t:4317",
		"METRICS_COLLECTOR_ADDRESS=m:4318 means https, as in Knative, and no longer plaintext: write http://m:4318 or https://m:4318",
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("got  %q\nwant %q", warnings, want)
	}
	for _, destination := range []func() (otlp.Destination, TLSFiles){cfg.TracesOverOTLP, cfg.MetricsOverOTLP} {
		if to, _ := destination(); to.Insecure {
			t.Errorf("%+v is in clear text", to)
		}
	}
	for _, variables := range []map[string]string{
		with(bare, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://all"), with(bare, "OTEL_SDK_DISABLED", "true"), exporting,
		{"TRACING_CONFIG_ZIPKIN_ENDPOINT": "t:4317", "METRICS_COLLECTOR_ADDRESS": "m:4318"},
	} {
		if _, _, warnings, err := load(nil, variables); err != nil || warnings != nil {
			t.Errorf("%q: %v, warnings %q", variables, err, warnings)
		}
	}
}
