package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestObservabilityConfigSetsOnlySettingsThatAreNotSetIndividually(t *testing.T) {
	const all = `{
		"tracing": {"protocol": "http/protobuf", "endpoint": "http://otel:4318/v1/traces", "samplingRate": 1e-3},
		"metrics": {"protocol": "grpc", "endpoint": "otel:4317", "exportInterval": 1},
		"requestMetrics": {"protocol": "prometheus", "endpoint": "127.0.0.1:9095", "exportInterval": 30000000000},
		"runtime": {"profiling": "enabled", "exportInterval": 0},
		"enableRequestLog": true, "requestLogTemplate": "{{.TraceID}}", "enableProbeRequestLog": true,
		"LoggingURLTemplate": "http://logs", "EnableVarLogCollection": true
	}`
	want := defaults(t)
	want.observability = all
	want.Tracing.Protocol, want.Tracing.Endpoint, want.Tracing.SamplingRate = "http/protobuf", "http://otel:4318/v1/traces", 0.001
	want.MetricsPort, want.MetricsAddress, want.MetricsExportInterval = 9095, "127.0.0.1", 30*time.Second
	want.Profiling, want.RequestLog, want.RequestLogTemplate, want.RequestLogProbes = true, true, "{{.TraceID}}", true
	cfg, _, warnings, err := load(nil, map[string]string{"OBSERVABILITY_CONFIG": all})
	if err != nil || warnings != nil {
		t.Fatalf("got %v and warnings %q", err, warnings)
	}
	if got := fields(cfg); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !cfg.IsSet("METRICS_PORT") || cfg.IsSet("SERVING_REQUEST_LOG_TEMPLATE") != true || cfg.IsSet("TRACING_CONFIG_DEBUG") {
		t.Error("only settings in OBSERVABILITY_CONFIG must count as set")
	}

	cfg = mustLoad(t, []string{"--tracing=none", "--profiling=false", "--metrics-port=9999"}, map[string]string{
		"OBSERVABILITY_CONFIG": all, "TRACING_CONFIG_SAMPLE_RATE": "0.5", "SERVING_ENABLE_REQUEST_LOG": "false"})
	if cfg.Tracing.Protocol != "none" || cfg.Profiling || cfg.MetricsPort != 9999 || cfg.Tracing.SamplingRate != 0.5 || cfg.RequestLog {
		t.Errorf("an individual setting does not take precedence: %+v", cfg)
	}
	if cfg.Tracing.Endpoint == "" || cfg.RequestLogTemplate == "" {
		t.Errorf("a value of OBSERVABILITY_CONFIG is lost: %+v", cfg)
	}
}

func TestTheProtocolDeterminesTheMeaningOfRequestMetricsEndpoint(t *testing.T) {
	for _, c := range []struct {
		section, backend, address, collector string
		port                                 int
	}{
		{`{}`, "prometheus", "", "", 9091},
		{`null`, "prometheus", "", "", 9091},
		{`{"protocol":"","endpoint":""}`, "prometheus", "", "", 9091},
		{`{"endpoint":":9095"}`, "prometheus", "", "", 9095},
		{`{"protocol":"prometheus","endpoint":"[::1]:9095"}`, "prometheus", "::1", "", 9095},
		{`{"protocol":"prometheus","endpoint":"localhost:9095"}`, "prometheus", "localhost", "", 9095},
		{`{"protocol":"none"}`, "none", "", "", 9091},
		{`{"protocol":"none","endpoint":"ignored"}`, "none", "", "", 9091},
		{`{"protocol":"grpc","endpoint":"otel:4317"}`, "grpc", "", "otel:4317", 9091},
		{`{"protocol":"http/protobuf","endpoint":"https://otel/v1/metrics"}`, "http/protobuf", "", "https://otel/v1/metrics", 9091},
	} {
		cfg := mustLoad(t, nil, map[string]string{"OBSERVABILITY_CONFIG": `{"requestMetrics":` + c.section + `}`})
		if cfg.MetricsBackend != c.backend || cfg.MetricsAddress != c.address || cfg.MetricsCollector != c.collector || cfg.MetricsPort != c.port {
			t.Errorf("%s: got %q, %q, %q and %d", c.section, cfg.MetricsBackend, cfg.MetricsAddress, cfg.MetricsCollector, cfg.MetricsPort)
		}
	}
}

func TestBadValuesInObservabilityConfigAreRejectedEvenIfUnused(t *testing.T) {
	overruled := map[string]string{"TRACING_CONFIG_SAMPLE_RATE": "0.5", "TRACING_CONFIG_BACKEND": "none", "SERVING_REQUEST_METRICS_BACKEND": "none", "METRICS_PORT": "1",
		"ENABLE_PROFILING": "false", "SERVING_ENABLE_REQUEST_LOG": "false", "SERVING_REQUEST_LOG_TEMPLATE": "x"}
	for config, want := range map[string]string{
		`{"tracing":{"protocol":"smoke"}}`:           `OBSERVABILITY_CONFIG tracing.protocol="smoke": want none, zipkin, grpc, http/protobuf, stdout or stackdriver`,
		`{"tracing":{"protocol":1}}`:                 `OBSERVABILITY_CONFIG tracing.protocol=1: want a string`,
		`{"tracing":[]}`:                             `OBSERVABILITY_CONFIG tracing=[]: want an object`,
		`{"tracing":{"samplingRate":1.5}}`:           `OBSERVABILITY_CONFIG tracing.samplingRate=1.5: want a number from 0 to 1`,
		`{"tracing":{"samplingRate":-1}}`:            `OBSERVABILITY_CONFIG tracing.samplingRate=-1: want a number from 0 to 1`,
		`{"tracing":{"samplingRate":"1"}}`:           `OBSERVABILITY_CONFIG tracing.samplingRate="1": want a number from 0 to 1`,
		`{"tracing":{"endpoint":"here"}}`:            `OBSERVABILITY_CONFIG tracing.endpoint="here": want a URL (http or https) or host:port`,
		`{"metrics":{"protocol":"statsd"}}`:          `OBSERVABILITY_CONFIG metrics.protocol="statsd": want none, prometheus, grpc, http/protobuf, opencensus or stackdriver`,
		`{"metrics":{"exportInterval":-1}}`:          `OBSERVABILITY_CONFIG metrics.exportInterval=-1: want whole nanoseconds, 0 or more`,
		`{"requestMetrics":{"protocol":"statsd"}}`:   `OBSERVABILITY_CONFIG requestMetrics.protocol="statsd": want none, prometheus, grpc, http/protobuf, opencensus or stackdriver`,
		`{"requestMetrics":{"exportInterval":1.5}}`:  `OBSERVABILITY_CONFIG requestMetrics.exportInterval=1.5: want whole nanoseconds, 0 or more`,
		`{"requestMetrics":{"endpoint":"9095"}}`:     `OBSERVABILITY_CONFIG requestMetrics.endpoint="9095": want host:port or :port to listen on`,
		`{"requestMetrics":{"endpoint":":0"}}`:       `OBSERVABILITY_CONFIG requestMetrics.endpoint=":0": want host:port or :port to listen on`,
		`{"requestMetrics":{"endpoint":"a b:1"}}`:    `OBSERVABILITY_CONFIG requestMetrics.endpoint="a b:1": want host:port or :port to listen on`,
		`{"runtime":{"profiling":"true"}}`:           `OBSERVABILITY_CONFIG runtime.profiling="true": want enabled or disabled`,
		`{"runtime":{"exportInterval":"15s"}}`:       `OBSERVABILITY_CONFIG runtime.exportInterval="15s": want whole nanoseconds, 0 or more`,
		`{"enableRequestLog":"true"}`:                `OBSERVABILITY_CONFIG enableRequestLog="true": want true or false`,
		`{"enableProbeRequestLog":1}`:                `OBSERVABILITY_CONFIG enableProbeRequestLog=1: want true or false`,
		`{"requestLogTemplate":{"a":` + "\n" + `1}}`: `OBSERVABILITY_CONFIG requestLogTemplate={"a": 1}: want a string`,
	} {
		for name, variables := range map[string]map[string]string{"alone": nil, "overruled": overruled} {
			problems := problemsOf(t, nil, with(variables, "OBSERVABILITY_CONFIG", config))
			if len(problems) != 1 || problems[0] != want {
				t.Errorf("%s %s:\ngot  %s\nwant %s", config, name, strings.Join(problems, "\n     "), want)
			}
		}
	}
}

func TestASamplingRateThatKnativeOmitsIs0(t *testing.T) {
	for _, c := range []struct {
		tracing, variable string
		want              float64
	}{
		{`"protocol":"grpc","endpoint":"http://t"`, "", 0}, {`"protocol":"http/protobuf","endpoint":"http://t"`, "", 0},
		{`"protocol":"grpc","endpoint":"http://t","samplingRate":null`, "", 0}, {`"protocol":"grpc","endpoint":"http://t"`, "0.5", 0.5},
		{`"protocol":"grpc","endpoint":"http://t","samplingRate":0.2`, "", 0.2},
		{`"protocol":"zipkin","endpoint":"http://t"`, "", 0.1}, {`"protocol":"stdout"`, "", 0.1}, {"", "", 0.1},
	} {
		cfg := mustLoad(t, nil, map[string]string{"OBSERVABILITY_CONFIG": `{"tracing":{` + c.tracing + `}}`, "TRACING_CONFIG_SAMPLE_RATE": c.variable})
		if cfg.Tracing.SamplingRate != c.want {
			t.Errorf("%+v: %v", c, cfg.Tracing.SamplingRate)
		}
	}
}

func TestPushingWithoutAnEndpointIsRejected(t *testing.T) {
	for config, env := range map[string]string{
		`{"tracing":{"protocol":"grpc"}}`:                 "TRACING_CONFIG_ZIPKIN_ENDPOINT",
		`{"tracing":{"protocol":"zipkin"}}`:               "TRACING_CONFIG_ZIPKIN_ENDPOINT",
		`{"requestMetrics":{"protocol":"http/protobuf"}}`: "METRICS_COLLECTOR_ADDRESS",
	} {
		if problems := problemsOf(t, nil, map[string]string{"OBSERVABILITY_CONFIG": config}); len(problems) != 1 || !strings.HasPrefix(problems[0], env+`="": want `) {
			t.Errorf("%s: got %q", config, problems)
		}
	}
}

func TestUnknownKeysInObservabilityConfigCauseWarnings(t *testing.T) {
	cfg, _, warnings, err := load(nil, map[string]string{
		"OBSERVABILITY_CONFIG": `{"zzz":1,"tracing":{"sampling_rate":1,"protocol":"stdout"},"":{},"Tracing":{},"runtime":{"x\ny":{}}}`})
	if err != nil || cfg.Tracing.Protocol != "stdout" {
		t.Fatalf("got %v and %q", err, cfg.Tracing.Protocol)
	}
	want := []string{
		`OBSERVABILITY_CONFIG: unknown key "" is ignored`,
		`OBSERVABILITY_CONFIG: unknown key "Tracing" is ignored`,
		`OBSERVABILITY_CONFIG: unknown key "runtime.x\ny" is ignored`,
		`OBSERVABILITY_CONFIG: unknown key "tracing.sampling_rate" is ignored`,
		`OBSERVABILITY_CONFIG: unknown key "zzz" is ignored`,
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("got  %q\nwant %q", warnings, want)
	}
}

func TestABackendOfEarlierKnativeVersionsIsReplacedWithAWarning(t *testing.T) {
	for _, c := range []struct{ name, text, found, metrics, tracing string }{
		{"SERVING_REQUEST_METRICS_BACKEND", "stackdriver", "SERVING_REQUEST_METRICS_BACKEND=stackdriver", "prometheus", "none"},
		{"SERVING_REQUEST_METRICS_BACKEND", "opencensus", "SERVING_REQUEST_METRICS_BACKEND=opencensus", "prometheus", "none"},
		{"OBSERVABILITY_CONFIG", `{"requestMetrics":{"protocol":"stackdriver","endpoint":"any"}}`, "OBSERVABILITY_CONFIG requestMetrics.protocol=stackdriver", "prometheus", "none"},
		{"TRACING_CONFIG_BACKEND", "stackdriver", "TRACING_CONFIG_BACKEND=stackdriver", "prometheus", "none"},
	} {
		cfg, _, warnings, err := load(nil, map[string]string{c.name: c.text})
		if err != nil || cfg.MetricsBackend != c.metrics || cfg.Tracing.Protocol != c.tracing {
			t.Fatalf("%s: %v, %+v", c.text, err, cfg)
		}
		if len(warnings) != 1 || !strings.HasPrefix(warnings[0], c.found+": there is no such exporter; ") {
			t.Errorf("%s: warnings %q", c.text, warnings)
		}
	}
	// stackdriver is replaced by prometheus, which listens on 9091. So USER_PORT=9091
	// is a conflict.
	if problems := problemsOf(t, nil, map[string]string{"SERVING_REQUEST_METRICS_BACKEND": "stackdriver", "USER_PORT": "9091"}); len(problems) != 1 {
		t.Errorf("got %q", problems)
	}
}
