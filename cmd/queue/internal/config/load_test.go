package config

import (
	"crypto/tls"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// load is Load over a map.
func load(args []string, variables map[string]string) (*Config, Command, []string, error) {
	lookup := func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
	return Load(args, lookup, slices.Sorted(maps.Keys(variables)))
}

func mustLoad(t testing.TB, args []string, variables map[string]string) *Config {
	t.Helper()
	cfg, _, _, err := load(args, variables)
	if err != nil {
		t.Fatalf("Load(%q, %q): %v", args, variables, err)
	}
	return cfg
}

// problemsOf returns the lines of the error of Load.
func problemsOf(t *testing.T, args []string, variables map[string]string) []string {
	t.Helper()
	cfg, _, _, err := load(args, variables)
	if err == nil {
		t.Fatalf("Load(%q, %q) is accepted", args, variables)
	}
	if cfg != nil {
		t.Errorf("Load(%q, %q) returns an error and a configuration", args, variables)
	}
	return strings.Split(err.Error(), "\n")
}

// fields returns a copy of a configuration without its table and the origins of values.
func fields(cfg *Config) Config {
	c := *cfg
	c.settings, c.inputs, c.Knative = nil, inputs{}, false
	return c
}

// withoutSecrets returns the result of fields(cfg) with masked values of OTLP headers.
func withoutSecrets(cfg *Config) Config {
	c := fields(cfg)
	for _, of := range []*OTLP{&c.OTel.Shared, &c.OTel.Traces, &c.OTel.Metrics} {
		of.Headers = slices.Clone(of.Headers)
		for i := range of.Headers {
			of.Headers[i].Value = masked
		}
	}
	return c
}

// knownSettings is the table of settings of an empty configuration.
func knownSettings() []setting { return table(new(Config)) }

func hostName(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func defaults(t *testing.T) Config {
	return Config{
		Gate: exchange.Config{
			QueueRefusalStatus: 503, LoadReports: exchange.RequestedLoadReports, UnlimitedCapacity: 8, QueueCapacity: 1000, HeadMemory: 16 << 20, RequestTimeout: 300 * time.Second, UpstreamWait: 10 * time.Second, UpstreamRestartWait: time.Second,
			DrainTunnel: 60 * time.Second,
		},
		TLS: tlsfront.Config{Dir: "/var/lib/knative/certs"}, Tracing: tracing.Config{Protocol: "none", SamplingRate: 0.1},
		OTel:        OTel{Shared: OTLP{Timeout: 10 * time.Second, Compression: "none"}},
		Identity:    metrics.Identity{Pod: hostName(t)},
		ServingPort: 8012, ServingTLSPort: 8112, UserPort: 8080, DrainSocket: "@queuegate", StopTimeout: 10 * time.Second,
		ReadinessWait: 10 * time.Second, ReadinessFreshness: time.Second, AppProbeHost: "127.0.0.1",
		EngineMetricsPeriod: 50 * time.Millisecond, EngineMaxKV: 0.9,
		AdminPort: 8022, AutoscalerMetricsPort: 9090, MetricsPort: 9091, MetricsBackend: "prometheus", MetricsNames: "current", MetricsExportInterval: time.Minute,
		AnnotationsFile: "/etc/podinfo/annotations", StatusPort: 8023, ProfilingPort: 8008, LogLevel: "info", UpstreamProtocol: "auto", HTTP2MaxHeaderList: 64 << 10,
	}
}

func TestWithoutFlagsAndVariablesAllDefaultsApply(t *testing.T) {
	if got, want := fields(mustLoad(t, nil, nil)), defaults(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTheDefaultQuietPeriodOfADrainDependsOnThePlatform(t *testing.T) {
	for _, c := range []struct {
		place, set string
		flag       []string
		want       time.Duration
	}{
		{place: "PATH=/bin"}, // not in a pod
		{place: "SERVING_READINESS_PROBE=none"},
		{place: "KUBERNETES_SERVICE_HOST="},
		{place: "KUBERNETES_SERVICE_HOST=10.96.0.1", want: 30 * time.Second},
		{place: "SERVING_REVISION=hello-00001", want: 30 * time.Second},
		{place: "SERVING_POD=hello-00001-deployment-x", want: 30 * time.Second},
		{place: "KUBERNETES_SERVICE_HOST=10.96.0.1", set: "0"},
		{place: "KUBERNETES_SERVICE_HOST=10.96.0.1", flag: []string{"--drain-quiet", "5"}, want: 5 * time.Second},
		{place: "PATH=/bin", set: "7", want: 7 * time.Second},
	} {
		name, value, _ := strings.Cut(c.place, "=")
		cfg := mustLoad(t, c.flag, map[string]string{name: value, "DRAIN_QUIET_SECONDS": c.set})
		if cfg.Gate.DrainQuiet != c.want {
			t.Errorf("%+v: %v", c, cfg.Gate.DrainQuiet)
		}
	}
}

// allDifferent has a value for every setting, different from its default and from all
// other values.
var allDifferent = map[string]string{
	"QUEUE_SERVING_PORT": "1001", "QUEUE_SERVING_TLS_PORT": "1002", "USER_PORT": "1003", "PRESET": "triton", "LISTEN_ADDRESS": "::1", "THREADS": "3",
	"CLIENT_HALF_CLOSE": "answer", "TRUSTED_SOURCES": "10.0.0.0/8,::1", "HEAD_MEMORY": "1Mi", "ENABLE_HTTP_FULL_DUPLEX": "true",
	"CONTAINER_CONCURRENCY": "7", "CONCURRENCY_HARD": "true", "QUEUE_CAPACITY": "0", "QUEUE_MAX_WAIT": "250ms",
	"QUEUE_FAIR_BY": "header:X-Tenant", "QUEUE_PRIORITY_BY": "header:Priority", "ENGINE_METRICS": "http://localhost:8000/metrics?x=y", "ENGINE_METRICS_PERIOD": "20ms", "ENGINE_MAX_WAITING": "19", "ENGINE_MAX_KV": "0.8", "READINESS_ROOM": "21s", "QUEUE_EVICT": "class>=5,after=1.5s,rate=2", "QUEUE_COST_BY": "header:X-Tokens", "QUEUE_COST_LIMIT": "5000", "QUEUE_DEADLINE_BY": "header:X-Deadline:ms", "QUEUE_RETRY_AFTER": "measured",
	"QUEUE_REFUSAL_STATUS": "429", "SERVER_TIMING": "true", "REQUEST_START": "true", "LOAD_REPORTS": "always", "LOAD_REPORT_STREAM": "true", "UNLIMITED_PATHS": "/metrics,/health/*", "UNLIMITED_CAPACITY": "18",
	"UNCOUNTED_PATHS":          "/healthz, /livez",
	"REVISION_TIMEOUT_SECONDS": "45", "REVISION_RESPONSE_START_TIMEOUT_SECONDS": "11", "REVISION_IDLE_TIMEOUT_SECONDS": "12", "TUNNEL_MAX_SECONDS": "13.5",
	"WAIT_KEEPALIVE": "22s", "WAIT_PAGE": "750ms",
	"UPSTREAM_WAIT": "14", "UPSTREAM_RESTART_WAIT": "0.5", "ENABLE_HTTP2_AUTO_DETECTION": "true", "UPSTREAM_PROTOCOL": "h2c", "HTTP2_MAX_HEADER_LIST": "128Ki",
	"UPSTREAM_TLS": "true", "UPSTREAM_TLS_CA": "/upstream/ca", "UPSTREAM_TLS_SERVER_NAME": "inner.local", "UPSTREAM_TLS_INSECURE": "true",
	"SERVING_READINESS_PROBE": `[{"tcpSocket":{"port":"1003"}}]`, "ENABLE_MULTI_CONTAINER_PROBES": "true", "CONTAINER_NAMES": "web,log-shipper",
	"READINESS_WAIT": "15s", "READINESS_FRESHNESS": "1m",
	"KUBE_APP_PROBERS": `{"/app-health/web/livez":{"tcpSocket":{"port":1}}}`, "APP_PROBE_HOST": "app.local", "APP_PROBE_PORT": "1004",
	"DRAIN_QUIET_SECONDS": "0", "DRAIN_TUNNEL_SECONDS": "16", "STOP_TIMEOUT": "17s", "IDLE_STOP": "4m", "IDLE_FREEZE": "true", "IDLE_HOOK": "http://localhost:8000/sleep?level=1", "WAKE_HOOK": "http://[::1]/wake_up", "IDLE_WAKE_BY_PROBES": "true", "DRAIN_SOCKET": "@drain",
	"SIDE_PORTS": "1010", "ADMIN_PORT": "1005", "AUTOSCALER_METRICS_PORT": "1006", "METRICS_PORT": "1007", "STATUS_PORT": "1008", "PROFILING_PORT": "1009", "PROFILING_ADDRESS": "127.0.0.1",
	"OBSERVABILITY_CONFIG": "{}", "METRICS_NAMES": "both", "SERVING_REQUEST_METRICS_BACKEND": "http/protobuf", "METRICS_COLLECTOR_ADDRESS": "collector:55678",
	"TRACING_CONFIG_BACKEND": "zipkin", "TRACING_CONFIG_ZIPKIN_ENDPOINT": "http://zipkin:9411/api/v2/spans", "TRACING_CONFIG_SAMPLE_RATE": "0.250000", "TRACING_CONFIG_DEBUG": "true", "TRACING_ATTRIBUTES": "legacy",
	"OTEL_EXPORTER_OTLP_ENDPOINT": "http://both:4318/base", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://traces/x", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "metrics:4317",
	"OTEL_SERVICE_NAME": "named", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b,empty=", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.75", "OTEL_PROPAGATORS": "b3,tracecontext", "OTEL_METRIC_EXPORT_INTERVAL": "1500", "OTEL_SDK_DISABLED": "true",
	"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
	"OTEL_EXPORTER_OTLP_HEADERS": "a=1,b=x%20y", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "c=3", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "d=4",
	"OTEL_EXPORTER_OTLP_TIMEOUT": "11000", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "12", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "0",
	"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "none", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "gzip",
	"OTEL_EXPORTER_OTLP_CERTIFICATE": "both.pem", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "traces.pem", "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE": "metrics.pem",
	"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "both.crt", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE": "traces.crt", "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE": "metrics.crt",
	"OTEL_EXPORTER_OTLP_CLIENT_KEY": "both.key", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": "traces.key", "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY": "metrics.key",
	"OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "false", "OTEL_EXPORTER_OTLP_METRICS_INSECURE": "true",
	"ENABLE_PROFILING":       "true",
	"SERVING_LOGGING_CONFIG": `{"level":"warn"}`, "SERVING_LOGGING_LEVEL": "debug",
	"SERVING_ENABLE_REQUEST_LOG": "true", "SERVING_REQUEST_LOG_TEMPLATE": "{{.Request.Method}}", "SERVING_ENABLE_PROBE_REQUEST_LOG": "true",
	"CERT_DIR": "/certs", "QUEUE_PROXY_TLS_MIN_VERSION": "1.2", "QUEUE_PROXY_TLS_MAX_VERSION": "1.3",
	"QUEUE_PROXY_TLS_CIPHER_SUITES": "TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "QUEUE_PROXY_TLS_CURVE_PREFERENCES": "X25519,P-256",
	"TLS_CLIENT_CA": "/clients/ca", "TLS_CLIENT_SANS": "a.example, spiffe://b/c", "TLS_ONLY": "true",
	"ROOT_CA":           "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	"SERVING_NAMESPACE": "ns", "SERVING_CONFIGURATION": "conf", "SERVING_REVISION": "rev", "SERVING_SERVICE": "svc", "SERVING_POD": "pod", "SERVING_POD_IP": "10.0.0.1",
	"POD_NAME": "podname", "HOST_IP": "10.0.0.2", "SYSTEM_NAMESPACE": "knative-serving",
	"ANNOTATIONS_FILE": "/annotations", "SETTINGS_FILE": "/settings", "SETTINGS_ALLOW": "concurrency,timeout",
}

func allDifferentConfig() Config {
	c := Config{
		Gate: exchange.Config{
			AllowHalfClose: true, HeadMemory: 1 << 20,
			TrustedSources:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			ConcurrencyLimit: 7, HardConcurrency: true, QueueCapacity: 0, QueueMaxWait: 250 * time.Millisecond,
			RequestTimeout: 45 * time.Second, ResponseStartTimeout: 11 * time.Second, IdleTimeout: 12 * time.Second, TunnelMax: 13500 * time.Millisecond,
			WaitKeepalive: 22 * time.Second, WaitPage: 750 * time.Millisecond,
			QueueRefusalStatus: 429, ServerTiming: true, RequestStart: true, LoadReports: exchange.AllLoadReports, LoadReportStream: true, UnlimitedCapacity: 18,
			UnlimitedPaths: []exchange.PathPattern{pathPattern("/metrics"), pathPattern("/health/*")},
			Overload: exchange.OverloadConfig{
				FairBy: mustSelector("header:X-Tenant"), PriorityBy: mustSelector("header:Priority"), DeadlineBy: mustTimeoutSelector("header:X-Deadline:ms"), MeasuredRetry: true,
				CostBy: mustCostSelector("header:X-Tokens"), CostLimit: 5000, Brake: true,
				Evict: exchange.Eviction{Class: 5, After: 1500 * time.Millisecond, Rate: 2},
			},
			UpstreamWait: 14 * time.Second, UpstreamRestartWait: 500 * time.Millisecond, DrainQuiet: 0, DrainTunnel: 16 * time.Second, TLSOnly: true,
		},
		TLS: tlsfront.Config{
			Dir: "/certs", MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
			CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			Curves:       []tls.CurveID{tls.X25519, tls.CurveP256},
			ClientCA:     "/clients/ca", ClientSANs: []string{"a.example", "spiffe://b/c"},
		},
		Tracing: tracing.Config{Protocol: "zipkin", Endpoint: "http://zipkin:9411/api/v2/spans", SamplingRate: 0.25, Debug: true, LegacyAttributes: true},
		OTel: OTel{
			ResourceAttributes: []otlp.KeyValue{{Key: "team", Value: "a b"}, {Key: "empty"}}, Sampler: "traceidratio", SamplerArg: "0.75", Propagators: []string{"b3", "tracecontext"}, Disabled: true,
			Shared:  OTLP{"http://both:4318/base", "grpc", []otlp.Header{{Name: "a", Value: "1"}, {Name: "b", Value: "x y"}}, 11 * time.Second, "gzip", "both.pem", "true", "both.crt", "both.key"},
			Traces:  OTLP{"https://traces/x", "http/protobuf", []otlp.Header{{Name: "c", Value: "3"}}, 12 * time.Millisecond, "none", "traces.pem", "false", "traces.crt", "traces.key"},
			Metrics: OTLP{"metrics:4317", "http/protobuf", []otlp.Header{{Name: "d", Value: "4"}}, longestDuration, "gzip", "metrics.pem", "true", "metrics.crt", "metrics.key"},
		},
		Identity:    metrics.Identity{Namespace: "ns", Configuration: "conf", Revision: "rev", Service: "svc", Pod: "pod", ServiceName: "named"},
		ServingPort: 1001, ServingTLSPort: 1002, UserPort: 1003, ListenAddress: "::1", Threads: 3, UncountedPaths: []string{"/healthz", "/livez"}, Concurrency: Concurrency{Limit: 7},
		UpstreamProtocol: "h2c", HTTP2MaxHeaderList: 128 << 10, UpstreamTLS: true, UpstreamTLSCA: "/upstream/ca", UpstreamTLSServerName: "inner.local", UpstreamTLSInsecure: true,
		EngineMetrics: "http://localhost:8000/metrics?x=y", EngineMetricsPeriod: 20 * time.Millisecond, EngineMaxWaiting: 19, EngineMaxKV: 0.8, ReadinessRoom: 21 * time.Second,
		ReadinessProbe: `[{"tcpSocket":{"port":"1003"}}]`, MultiContainerProbes: true, ContainerNames: []string{"web", "log-shipper"},
		ReadinessWait: 15 * time.Second, ReadinessFreshness: time.Minute,
		AppProbers: `{"/app-health/web/livez":{"tcpSocket":{"port":1}}}`, AppProbeHost: "app.local", AppProbePort: 1004,
		DrainSocket: "@drain", StopTimeout: 17 * time.Second, IdleStop: 4 * time.Minute, IdleFreeze: true, IdleWakeByProbes: true,
		IdleHook: "http://localhost:8000/sleep?level=1", WakeHook: "http://[::1]/wake_up", SidePorts: 1010,
		AdminPort: 1005, AutoscalerMetricsPort: 1006, MetricsPort: 1007, MetricsAddress: "::1", StatusPort: 1008, ProfilingPort: 1009, ProfilingAddress: "127.0.0.1",
		observability: "{}", MetricsNames: "both", MetricsBackend: "http/protobuf", MetricsCollector: "collector:55678", MetricsExportInterval: 1500 * time.Millisecond,
		Profiling:     true,
		LoggingConfig: `{"level":"warn"}`, LogLevel: "debug", RequestLog: true, RequestLogTemplate: "{{.Request.Method}}", RequestLogProbes: true,
		RootCA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		PodIP:  "10.0.0.1",
		Preset: "triton",

		AnnotationsFile: "/annotations", SettingsFile: "/settings", SettingsAllow: []string{"concurrency", "timeout"},
	}
	c.ignored.fullDuplex, c.ignored.http2AutoDetection = true, true
	c.ignored.podName, c.ignored.hostIP, c.ignored.systemNamespace = "podname", "10.0.0.2", "knative-serving"
	return c
}

func mustSelector(s string) exchange.Selector {
	selector, err := exchange.ParseSelector(s)
	if err != nil {
		panic(err)
	}
	return selector
}

func mustCostSelector(s string) exchange.Selector {
	selector, err := exchange.ParseCostSelector(s)
	if err != nil {
		panic(err)
	}
	return selector
}

func mustTimeoutSelector(s string) exchange.Selector {
	selector, err := exchange.ParseTimeoutSelector(s)
	if err != nil {
		panic(err)
	}
	return selector
}

func TestEveryVariableSetsItsConfigurationField(t *testing.T) {
	for _, s := range knownSettings() {
		if _, ok := allDifferent[s.name]; !ok {
			t.Errorf("%s is not in this test", s.name)
		}
	}
	cfg := mustLoad(t, nil, allDifferent)
	if got, want := fields(cfg), allDifferentConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, s := range cfg.settings {
		if s.source != fromEnvironment {
			t.Errorf("%s comes from %s", s.name, s.source)
		}
	}
}

func TestEveryFlagSetsItsFieldAndOverridesTheEnvironment(t *testing.T) {
	nonsense := make(map[string]string)
	var apart, joined []string
	for _, s := range knownSettings() {
		nonsense[s.name] = "\x01" // only plain text settings accept this
		text := allDifferent[s.name]
		joined = append(joined, "--"+s.flag+"="+text)
		switch {
		case s.value.about().hint == "":
			// A boolean flag without a value means true, which is its value in
			// allDifferent.
			apart = append(apart, "--"+s.flag)
		case strings.HasPrefix(text, "--"):
			// As a separate argument, this text would be parsed as a flag.
			apart = append(apart, "--"+s.flag+"="+text)
		default:
			apart = append(apart, "--"+s.flag, text)
		}
	}
	for _, args := range [][]string{joined, apart} {
		cfg := mustLoad(t, args, nonsense)
		if got, want := fields(cfg), allDifferentConfig(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		for _, s := range cfg.settings {
			if s.source != fromFlag {
				t.Errorf("%s comes from %s", s.name, s.source)
			}
		}
	}
}

func TestEmptyVariableCountsAsUnset(t *testing.T) {
	variables := make(map[string]string)
	for _, s := range knownSettings() {
		variables[s.name] = ""
	}
	cfg := mustLoad(t, nil, variables)
	if got, want := fields(cfg), defaults(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if cfg.IsSet("USER_PORT") {
		t.Error("an empty USER_PORT counts as set")
	}
}

func TestAnEmptyFlagSelectsTheDefault(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port=", "--listen-address", "", "--queue-capacity=", "--log-level="}, map[string]string{
		"USER_PORT": "81", "LISTEN_ADDRESS": "127.0.0.1", "QUEUE_CAPACITY": "5", "CONTAINER_CONCURRENCY": "2",
		"SERVING_LOGGING_LEVEL": "error", "SERVING_LOGGING_CONFIG": `{"level":"warn"}`})
	if cfg.UserPort != 8080 || cfg.ListenAddress != "" || cfg.Gate.QueueCapacity != 20 || cfg.LogLevel != "warn" {
		t.Errorf("got port %d, address %q, capacity %d and level %s", cfg.UserPort, cfg.ListenAddress, cfg.Gate.QueueCapacity, cfg.LogLevel)
	}
}

func TestTheLastOfSeveralFlagsApplies(t *testing.T) {
	if cfg := mustLoad(t, []string{"--user-port=1", "--user-port", "2"}, nil); cfg.UserPort != 2 {
		t.Errorf("got %d", cfg.UserPort)
	}
}

func TestQueueCapacityFollowsTheLimitUnlessGiven(t *testing.T) {
	for _, c := range []struct {
		limit, capacity string
		want            int
	}{{"", "", 1000}, {"0", "", 1000}, {"1", "", 10}, {"1048576", "", 10485760}, {"10", "3", 3}, {"10", "0", 0}, {"0", "5", 5}} {
		cfg := mustLoad(t, nil, map[string]string{"CONTAINER_CONCURRENCY": c.limit, "QUEUE_CAPACITY": c.capacity})
		if cfg.Gate.QueueCapacity != c.want {
			t.Errorf("limit %q, capacity %q: got %d, want %d", c.limit, c.capacity, cfg.Gate.QueueCapacity, c.want)
		}
	}
}

func TestProfilingAndMetricsListenOnTheTrafficAddressUnlessSet(t *testing.T) {
	cfg := mustLoad(t, nil, map[string]string{"LISTEN_ADDRESS": "10.0.0.1"})
	if cfg.ProfilingAddress != "10.0.0.1" || cfg.MetricsAddress != "10.0.0.1" {
		t.Errorf("got %q and %q", cfg.ProfilingAddress, cfg.MetricsAddress)
	}
}

func TestKubeAppProbersTakesPrecedenceOverIstiosVariable(t *testing.T) {
	const kube, istio = `{"/app-health/kube/livez":{"tcpSocket":{"port":1}}}`, `{"/app-health/istio/livez":{"tcpSocket":{"port":1}}}`
	for _, c := range []struct{ kube, istio, want string }{{kube, istio, kube}, {"", istio, istio}, {kube, "{", kube}, {"", "", ""}} {
		cfg := mustLoad(t, nil, map[string]string{"KUBE_APP_PROBERS": c.kube, "ISTIO_KUBE_APP_PROBERS": c.istio})
		if cfg.AppProbers != c.want {
			t.Errorf("%q and %q: got %q", c.kube, c.istio, cfg.AppProbers)
		}
	}
	problems := problemsOf(t, nil, map[string]string{"ISTIO_KUBE_APP_PROBERS": "1"})
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "ISTIO_KUBE_APP_PROBERS=\"1\": want ") {
		t.Errorf("got %q", problems)
	}
}

// The environment that Knative's controller sets for a revision with defaults.
var knativeEnvironment = map[string]string{
	"SERVING_NAMESPACE": "default", "SERVING_SERVICE": "", "SERVING_CONFIGURATION": "hello", "SERVING_REVISION": "hello-00001",
	"QUEUE_SERVING_PORT": "8012", "QUEUE_SERVING_TLS_PORT": "8112", "CONTAINER_CONCURRENCY": "0",
	"REVISION_TIMEOUT_SECONDS": "300", "REVISION_RESPONSE_START_TIMEOUT_SECONDS": "0", "REVISION_IDLE_TIMEOUT_SECONDS": "0",
	"SERVING_POD": "hello-00001-deployment-x", "SERVING_POD_IP": "10.1.2.3",
	"SERVING_LOGGING_CONFIG": `{
	  "level": "info",
	  "development": false,
	  "outputPaths": ["stdout"],
	  "errorOutputPaths": ["stderr"],
	  "encoding": "json",
	  "encoderConfig": {
	    "timeKey": "timestamp",
	    "levelKey": "severity",
	    "nameKey": "logger",
	    "callerKey": "caller",
	    "messageKey": "message",
	    "stacktraceKey": "stacktrace",
	    "lineEnding": "",
	    "levelEncoder": "",
	    "timeEncoder": "iso8601",
	    "durationEncoder": "",
	    "callerEncoder": ""
	  }
	}
	`,
	"SERVING_LOGGING_LEVEL": "", "USER_PORT": "8080", "SYSTEM_NAMESPACE": "knative-serving",
	"SERVING_READINESS_PROBE": `{"tcpSocket":{"port":8080,"host":"127.0.0.1"},"successThreshold":1}`, "HOST_IP": "10.0.0.9",
	"ENABLE_HTTP2_AUTO_DETECTION": "false", "ENABLE_HTTP_FULL_DUPLEX": "false", "ROOT_CA": "",
	"QUEUE_PROXY_TLS_MIN_VERSION": "", "QUEUE_PROXY_TLS_MAX_VERSION": "", "QUEUE_PROXY_TLS_CIPHER_SUITES": "", "QUEUE_PROXY_TLS_CURVE_PREFERENCES": "",
	"ENABLE_MULTI_CONTAINER_PROBES": "false",
	"OBSERVABILITY_CONFIG": `{"tracing":{"protocol":"none"},"metrics":{"protocol":"none"},"runtime":{"profiling":"disabled","exportInterval":15000000000},` +
		`"requestMetrics":{"protocol":"none"},"requestLogTemplate":"{\"httpRequest\": {\"requestUrl\": \"{{js .Request.RequestURI}}\", \"status\": {{.Response.Code}}}, \"traceId\": \"{{.TraceID}}\"}"}`,
}

func with(variables map[string]string, changes ...string) map[string]string {
	changed := make(map[string]string)
	for name, text := range variables {
		changed[name] = text
	}
	for i := 0; i < len(changes); i += 2 {
		changed[changes[i]] = changes[i+1]
	}
	return changed
}

func TestKnativesEnvironmentIsAccepted(t *testing.T) {
	cases := map[string]map[string]string{
		"defaults":                      knativeEnvironment,
		"port 8112 of the container":    with(knativeEnvironment, "USER_PORT", "8112"),
		"port 8023 of the container":    with(knativeEnvironment, "USER_PORT", "8023"),
		"h2c service":                   with(knativeEnvironment, "QUEUE_SERVING_PORT", "8013"),
		"very long timeout":             with(knativeEnvironment, "REVISION_TIMEOUT_SECONDS", "9223372036854775807"),
		"no probes of several":          with(knativeEnvironment, "SERVING_READINESS_PROBE", "[]", "ENABLE_MULTI_CONTAINER_PROBES", "true"),
		"no probe":                      with(knativeEnvironment, "SERVING_READINESS_PROBE", ""),
		"no probe of one of several":    with(knativeEnvironment, "SERVING_READINESS_PROBE", "[null]", "ENABLE_MULTI_CONTAINER_PROBES", "true"),
		"numeric string for probe port": with(knativeEnvironment, "SERVING_READINESS_PROBE", `{"httpGet":{"port":"8080"},"periodSeconds":1}`),
		"empty objects":                 with(knativeEnvironment, "OBSERVABILITY_CONFIG", `{"tracing":{},"metrics":{},"runtime":{},"requestMetrics":{}}`),
		"no logging configuration":      with(knativeEnvironment, "SERVING_LOGGING_CONFIG", ""),
		"all logging keys empty":        with(knativeEnvironment, "SERVING_LOGGING_CONFIG", `{"level":"","encoding":"","encoderConfig":{"levelEncoder":"","timeEncoder":"","nameEncoder":""}}`),
		"earlier generation": with(knativeEnvironment, "OBSERVABILITY_CONFIG", "", "SERVING_REQUEST_LOG_TEMPLATE", "", "SERVING_REQUEST_METRICS_BACKEND", "prometheus",
			"TRACING_CONFIG_BACKEND", "none", "TRACING_CONFIG_ZIPKIN_ENDPOINT", "", "TRACING_CONFIG_DEBUG", "false", "TRACING_CONFIG_SAMPLE_RATE", "0.100000",
			"ENABLE_PROFILING", "false", "SERVING_ENABLE_REQUEST_LOG", "false", "SERVING_ENABLE_PROBE_REQUEST_LOG", "false", "METRICS_COLLECTOR_ADDRESS", ""),
	}
	for name, variables := range cases {
		t.Run(name, func(t *testing.T) {
			if cfg := mustLoad(t, nil, variables); cfg.Identity.Namespace != "default" || cfg.Gate.RequestTimeout < 300*time.Second {
				t.Errorf("got %+v", cfg)
			}
		})
	}
}

func TestKnativesLongTimeoutsAreReducedInsteadOfOverflowing(t *testing.T) {
	for _, text := range []string{"3153600001", "9223372036854775807", "99999999999999999999999999999999"} {
		cfg := mustLoad(t, nil, map[string]string{"REVISION_TIMEOUT_SECONDS": text, "REVISION_IDLE_TIMEOUT_SECONDS": text, "DRAIN_QUIET_SECONDS": text})
		if cfg.Gate.RequestTimeout != longestDuration || cfg.Gate.IdleTimeout != longestDuration || cfg.Gate.DrainQuiet != longestDuration {
			t.Errorf("%s: got %v, %v and %v", text, cfg.Gate.RequestTimeout, cfg.Gate.IdleTimeout, cfg.Gate.DrainQuiet)
		}
	}
	if now := time.Now().UnixNano(); now+int64(longestDuration) < now {
		t.Error("the longest duration overflows a clock in nanoseconds")
	}
}

func pathPattern(text string) exchange.PathPattern {
	p, err := exchange.ParsePathPattern(text)
	if err != nil {
		panic(err)
	}
	return p
}
