package config

import (
	"crypto/tls"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEngineSettingsWithoutEngineMetricsCauseWarnings(t *testing.T) {
	variables := map[string]string{"ENGINE_MAX_WAITING": "3", "READINESS_ROOM": "2s"}
	_, _, warnings, err := load(nil, variables)
	if err != nil || len(warnings) != 2 || !strings.Contains(strings.Join(warnings, "\n"), "ENGINE_MAX_WAITING has no effect without ENGINE_METRICS") {
		t.Errorf("%q, %v", warnings, err)
	}
	variables["ENGINE_METRICS"] = "http://[::1]:8000/metrics"
	if cfg, _, warnings, err := load(nil, variables); err != nil || warnings != nil || !cfg.Gate.Overload.Brake {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestSettingsAcceptAlternativeSpellings(t *testing.T) {
	for _, c := range []struct{ env, text, want string }{
		{"USER_PORT", "1", "1"}, {"USER_PORT", "65535", "65535"},
		{"ADMIN_PORT", "0", "0"}, {"QUEUE_SERVING_TLS_PORT", "0", "0"},
		{"CONTAINER_CONCURRENCY", "1048576", "1048576"}, {"QUEUE_CAPACITY", "16777216", "16777216"},
		{"CONTAINER_CONCURRENCY", "auto", "auto"}, {"CONTAINER_CONCURRENCY", "auto:1-1000", "auto"}, {"CONTAINER_CONCURRENCY", "auto:8-64", "auto:8-64"},
		{"QUEUE_FAIR_BY", "peer", "peer"}, {"QUEUE_FAIR_BY", "path:2", "path:2"}, {"QUEUE_FAIR_BY", "header:X-Tenant", "header:X-Tenant"},
		{"REVISION_TIMEOUT_SECONDS", "1", "1"},
		{"TUNNEL_MAX_SECONDS", "0.0", "0"}, {"TUNNEL_MAX_SECONDS", "0.25", "0.25"}, {"TUNNEL_MAX_SECONDS", "0.0000000001", "0.000000001"},
		{"TUNNEL_MAX_SECONDS", "1.000000001", "1.000000001"}, {"TUNNEL_MAX_SECONDS", "1.99999999999", "1.999999999"},
		{"QUEUE_MAX_WAIT", "0", "0s"}, {"QUEUE_MAX_WAIT", "2", "2s"}, {"QUEUE_MAX_WAIT", "0.5", "500ms"}, {"QUEUE_MAX_WAIT", "1h30m", "1h30m0s"},
		{"QUEUE_MAX_WAIT", "0.1ns", "1ns"}, {"QUEUE_MAX_WAIT", "2562047h", longestDuration.String()},
		{"ENABLE_PROFILING", "TRUE", "true"}, {"ENABLE_PROFILING", "1", "true"}, {"ENABLE_PROFILING", "f", "false"},
		{"CLIENT_HALF_CLOSE", "Answer", "answer"}, {"CLIENT_HALF_CLOSE", "gone", "close"}, {"SERVING_REQUEST_METRICS_BACKEND", "Prometheus", "prometheus"},
		{"SERVING_LOGGING_LEVEL", "WARN", "warn"}, {"SERVING_LOGGING_LEVEL", "warning", "warn"},
		{"TRACING_CONFIG_SAMPLE_RATE", "1e-05", "1e-05"}, {"TRACING_CONFIG_SAMPLE_RATE", "1", "1"}, {"TRACING_CONFIG_SAMPLE_RATE", "0", "0"},
		{"TRUSTED_SOURCES", "10.1.2.3/8, 192.0.2.1,2001:db8::/32", "10.0.0.0/8,192.0.2.1/32,2001:db8::/32"},
		{"TRUSTED_SOURCES", "::ffff:192.0.2.1,::ffff:10.0.0.0/104,::/0", "192.0.2.1/32,10.0.0.0/8,::/0"},
		{"HEAD_MEMORY", "65536", "64Ki"}, {"HEAD_MEMORY", "65537", "65537"}, {"HEAD_MEMORY", "1024Mi", "1Gi"}, {"HEAD_MEMORY", "8388607Ti", "8388607Ti"},
		{"HEAD_MEMORY", "9223372036854775807", "9223372036854775807"},
		{"LISTEN_ADDRESS", "0.0.0.0", "0.0.0.0"}, {"LISTEN_ADDRESS", "fe80::1%eth0", "fe80::1%eth0"},
		{"APP_PROBE_HOST", "::1", "::1"}, {"APP_PROBE_HOST", "my-app.default.svc", "my-app.default.svc"},
		{"METRICS_COLLECTOR_ADDRESS", "[::1]:4317", "[::1]:4317"}, {"METRICS_COLLECTOR_ADDRESS", "https://c/v1/metrics", "https://c/v1/metrics"},
		{"UNCOUNTED_PATHS", " /a , /b/c", "/a,/b/c"},
		{"QUEUE_PROXY_TLS_CURVE_PREFERENCES", "P-384,, X25519MLKEM768 ,CurveP521", "CurveP384,X25519MLKEM768,CurveP521"},
		{"DRAIN_SOCKET", "/" + strings.Repeat("a", 106), "/" + strings.Repeat("a", 106)},
		{"SERVING_READINESS_PROBE", " {\"grpc\":{\"port\":1}} ", " {\"grpc\":{\"port\":1}} "},
		{"SERVING_READINESS_PROBE", `[{"tcpSocket":{}}]`, `[{"tcpSocket":{}}]`},
		{"SERVING_READINESS_PROBE", "none", "none"},
		{"SERVING_READINESS_PROBE", "null", "null"},
		{"SERVING_READINESS_PROBE", "[null]", "[null]"},
		{"SERVING_LOGGING_CONFIG", `{"encoderConfig":{"timeEncoder":{"layout":"2006"}}}`, `{"encoderConfig":{"timeEncoder":{"layout":"2006"}}}`},
		{"SERVING_REQUEST_LOG_TEMPLATE", "{{js .TraceID}}{{with .Request}}{{.Host}}{{end}}", "{{js .TraceID}}{{with .Request}}{{.Host}}{{end}}"},
	} {
		cfg := mustLoad(t, nil, map[string]string{c.env: c.text})
		if got := cfg.setting(c.env).value.text(); got != c.want {
			t.Errorf("%s=%q: got %q, want %q", c.env, c.text, got, c.want)
		}
	}
}

func TestABooleanFlagWithoutAValueMeansTrue(t *testing.T) {
	if cfg := mustLoad(t, []string{"--concurrency-hard", "--profiling=false"}, map[string]string{"ENABLE_PROFILING": "true"}); !cfg.Gate.HardConcurrency || cfg.Profiling {
		t.Errorf("got %v and %v", cfg.Gate.HardConcurrency, cfg.Profiling)
	}
}

func TestArgumentsSelectTheCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		want Command
	}{
		{nil, CommandRun},
		{[]string{"--port=1"}, CommandRun},
		{[]string{"--check"}, CommandCheck},
		{[]string{"--port", "1", "--check", "--user-port", "2"}, CommandCheck},
		{[]string{"--help"}, CommandHelp},
		{[]string{"-h"}, CommandHelp},
		{[]string{"--nope", "--user-port=x", "--version", "--help"}, CommandHelp},
		{[]string{"--help", "--version"}, CommandHelp},
		{[]string{"--version"}, CommandVersion},
		{[]string{"--check", "--version", "stray"}, CommandVersion},
		{[]string{"drain"}, CommandDrain},
		{[]string{"drain", "--help"}, CommandHelp},
		{[]string{"probe"}, CommandProbe},
		{[]string{"-probe-period", "0"}, CommandProbe},
		{[]string{"version"}, CommandVersion},
		{[]string{"help"}, CommandHelp},
		{[]string{"help", "drain"}, CommandHelp},
		{[]string{"help", "--json"}, CommandHelpJSON},
		{[]string{"--port=1", "--", "./app", "--help"}, CommandRun},
		{[]string{"--check", "--", "./app"}, CommandCheck},
	} {
		_, command, _, err := load(c.args, nil)
		if command != c.want || err != nil {
			t.Errorf("%q: got %v, %v; want %v", c.args, command, err, c.want)
		}
	}
	// The command is returned in spite of a problem.
	if _, command, _, err := load([]string{"--check"}, map[string]string{"USER_PORT": "x"}); command != CommandCheck || err == nil {
		t.Errorf("got %v, %v", command, err)
	}
}

func TestQueueDrainReadsOnlyTheDrainSocketSetting(t *testing.T) {
	broken := map[string]string{"USER_PORT": "x", "OBSERVABILITY_CONFIG": "x", "DRAIN_SOCKET": "/a"}
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"drain"}, "/a"}, {[]string{"drain", "--drain-socket", "/b"}, "/b"}, {[]string{"drain", "--drain-socket="}, "@queuegate"}} {
		cfg, command, warnings, err := load(c.args, broken)
		if err != nil || cfg.DrainSocket != c.want || command != CommandDrain || warnings != nil || cfg.UserPort != 0 {
			t.Errorf("%q: got %+v, %v, %q, %v", c.args, cfg, command, warnings, err)
		}
	}
	if problems := problemsOf(t, []string{"drain", "--drain-socket=x"}, nil); len(problems) != 1 {
		t.Errorf("got %q", problems)
	}
}

func TestProbeReadsOnlyTheAddressOfTheGate(t *testing.T) {
	broken := map[string]string{"USER_PORT": "x", "OBSERVABILITY_CONFIG": "x", "QUEUE_SERVING_PORT": "81", "LISTEN_ADDRESS": "::1"}
	for _, c := range []struct {
		args string
		want Config
	}{
		{"probe", Config{ServingPort: 81, ListenAddress: "::1", Probe: Probe{As: "kubelet"}}},
		{"probe --port 82 --listen-address= --as Ingress --timeout 2", Config{ServingPort: 82, Probe: Probe{As: "ingress", Timeout: 2 * time.Second}}},
		{"-probe-period 0", Config{ServingPort: 81, ListenAddress: "::1", Probe: Probe{As: "kubelet", Retry: 10 * time.Second}}},
		{"-probe-period=3", Config{ServingPort: 81, ListenAddress: "::1", Probe: Probe{As: "kubelet", Retry: 3 * time.Second}}},
		{"--probe-period 0 --as=activator", Config{ServingPort: 81, ListenAddress: "::1", Probe: Probe{As: "activator", Retry: 10 * time.Second}}},
	} {
		cfg, command, warnings, err := load(strings.Fields(c.args), broken)
		if err != nil || command != CommandProbe || warnings != nil {
			t.Fatalf("%s: %v, %q, %v", c.args, command, warnings, err)
		}
		c.want.Subject = "probe"
		if got := fields(cfg); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.args, got, c.want)
		}
	}
}

func TestArgumentsAfterTwoDashesAreTheApplication(t *testing.T) {
	cfg := mustLoad(t, []string{"--port", "81", "--", "./app", "--user-port", "-x", "--"}, nil)
	if want := []string{"./app", "--user-port", "-x", "--"}; !slices.Equal(cfg.Application, want) || cfg.ServingPort != 81 || cfg.UserPort != 8080 {
		t.Errorf("got %q, ports %d and %d", cfg.Application, cfg.ServingPort, cfg.UserPort)
	}
}

func TestSidePortsSettingAppliesToSidePortsNotSetExplicitly(t *testing.T) {
	ports := func(cfg *Config) []int {
		return []int{cfg.ServingPort, cfg.ServingTLSPort, cfg.AdminPort, cfg.AutoscalerMetricsPort, cfg.MetricsPort, cfg.StatusPort, cfg.ProfilingPort}
	}
	for _, c := range []struct {
		args   string
		want   []int
		socket string
	}{
		{"", []int{8012, 8112, 8022, 9090, 9091, 8023, 8008}, "@queuegate"},
		{"--side-ports=", []int{8012, 8112, 8022, 9090, 9091, 8023, 8008}, "@queuegate"},
		{"--side-ports=off --port=8001", []int{8001, 0, 0, 0, 0, 0, 0}, "@queuegate-8001"},
		{"--side-ports=0 --admin-port=70", []int{8012, 0, 70, 0, 0, 0, 0}, "@queuegate-8012"},
		{"--side-ports=9100", []int{8012, 9100, 9101, 9102, 9103, 9104, 9105}, "@queuegate-8012"},
		{"--side-ports=9100 --metrics-port=9091 --drain-socket=@x", []int{8012, 9100, 9101, 9102, 9091, 9104, 9105}, "@x"},
	} {
		cfg := mustLoad(t, strings.Fields(c.args), nil)
		if got := ports(cfg); !slices.Equal(got, c.want) || cfg.DrainSocket != c.socket {
			t.Errorf("%q: got %d and %s, want %d and %s", c.args, got, cfg.DrainSocket, c.want, c.socket)
		}
	}
}

func TestTheLogLevelDefaultsToTheLoggingConfiguration(t *testing.T) {
	for _, c := range []struct{ level, config, want string }{
		{"", "", "info"}, {"error", "", "error"}, {"", `{"level":"WARN"}`, "warn"}, {"debug", `{"level":"warn"}`, "debug"},
		{"", `{"level":""}`, "info"}, {"", `{}`, "info"}, {"info", `{"level":"debug"}`, "info"},
	} {
		if cfg := mustLoad(t, nil, map[string]string{"SERVING_LOGGING_LEVEL": c.level, "SERVING_LOGGING_CONFIG": c.config}); cfg.LogLevel != c.want {
			t.Errorf("level %q, configuration %q: got %q, want %q", c.level, c.config, cfg.LogLevel, c.want)
		}
	}
}

func TestTheNamesOfCipherSuitesAndCurvesAreThoseOfCryptoTLS(t *testing.T) {
	for _, suite := range tls.CipherSuites() {
		cfg := mustLoad(t, nil, map[string]string{"QUEUE_PROXY_TLS_CIPHER_SUITES": suite.Name})
		if !slices.Equal(cfg.TLS.CipherSuites, []uint16{suite.ID}) {
			t.Errorf("%s: got %v", suite.Name, cfg.TLS.CipherSuites)
		}
	}
	for _, id := range []tls.CurveID{tls.X25519, tls.X25519MLKEM768, tls.CurveP256, tls.CurveP384, tls.CurveP521} {
		cfg := mustLoad(t, nil, map[string]string{"QUEUE_PROXY_TLS_CURVE_PREFERENCES": id.String()})
		if !slices.Equal(cfg.TLS.Curves, []tls.CurveID{id}) {
			t.Errorf("%s: got %v", id, cfg.TLS.Curves)
		}
	}
}

func TestSecondsAreFormattedInTheFormatThatIsParsed(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Millisecond, time.Second, 90500 * time.Millisecond, longestDuration, longestDuration - 1} {
		if got, ok := parseSeconds(formatSeconds(d)); !ok || got != d {
			t.Errorf("%v is printed as %q and read as %v", d, formatSeconds(d), got)
		}
	}
}

func TestTheUserPortMayBeAuto(t *testing.T) {
	cfg := mustLoad(t, []string{"--user-port", "Auto", "--", "app"}, nil)
	if cfg.UserPort != AutoPort || cfg.setting("USER_PORT").value.text() != "auto" {
		t.Errorf("%d, %q", cfg.UserPort, cfg.setting("USER_PORT").value.text())
	}
}
