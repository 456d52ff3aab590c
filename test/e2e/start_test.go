package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestATakenPortGivesAClearErrorAndCode1(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"QUEUE_SERVING_PORT", "ADMIN_PORT"} {
		l, err := net.Listen("tcp", ":0")
		must(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		env := append(baseEnv(t),
			fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)),
			"DRAIN_SOCKET="+shortTempDir(t)+"/d.sock",
			fmt.Sprintf("%s=%d", name, port))
		code, _, stderr := runQueue(t, env)
		must(t, l.Close())
		if code != 1 || !strings.Contains(stderr, fmt.Sprint(port)) || !strings.Contains(stderr, "in use") {
			t.Errorf("%s: code %d, stderr %q; want 1 and the port in use", name, code, stderr)
		}
	}
}

func TestAllProblemsOfAConfigurationAreReportedWithCode2(t *testing.T) {
	t.Parallel()
	invalid := []string{
		"CONTAINER_CONCURRENCY=-1", "USER_PORT=x", "QUEUE_SERVING_PORT=0x50", "REVISION_TIMEOUT_SECONDS=0",
		"REVISION_IDLE_TIMEOUT_SECONDS=-2", "QUEUE_CAPACITY=many", "QUEUE_MAX_WAIT=soon", "CONCURRENCY_HARD=perhaps",
		"CLIENT_HALF_CLOSE=never", "DRAIN_QUIET_SECONDS=-1", "SERVING_READINESS_PROBE={}", "SERVING_LOGGING_LEVEL=loud",
	}
	for _, args := range [][]string{nil, {"--check"}} {
		code, _, stderr := runQueue(t, append(baseEnv(t), invalid...), args...)
		if code != 2 {
			t.Errorf("%v: code %d, want 2", args, code)
		}
		for _, b := range invalid {
			name, value, _ := strings.Cut(b, "=")
			if !strings.Contains(stderr, name) || !strings.Contains(stderr, value) {
				t.Errorf("%v: stderr lacks %s or its value %s:\n%s", args, name, value, stderr)
			}
		}
	}
	for _, probe := range []string{`{"exec":{"command":["true"]}}`, `{"httpGet":{"path":"/"},"tcpSocket":{"port":1}}`, `{`, `[1]`} {
		code, _, stderr := runQueue(t, append(baseEnv(t), "SERVING_READINESS_PROBE="+probe), "--check")
		if code != 2 || !strings.Contains(stderr, "SERVING_READINESS_PROBE") {
			t.Errorf("probe %s: code %d, stderr %q", probe, code, stderr)
		}
	}
}

func TestEmptyVariablesFromKnativeCountAsUnset(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "ROOT_CA=", "QUEUE_PROXY_TLS_MIN_VERSION=", "QUEUE_PROXY_TLS_MAX_VERSION=", "QUEUE_PROXY_TLS_CIPHER_SUITES=",
		"QUEUE_PROXY_TLS_CURVE_PREFERENCES=", "SERVING_LOGGING_LEVEL=", "SERVING_SERVICE=", "SERVING_READINESS_PROBE=",
		"CONTAINER_CONCURRENCY=0", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=0", "REVISION_IDLE_TIMEOUT_SECONDS=0",
		"REVISION_TIMEOUT_SECONDS=604800", "OBSERVABILITY_CONFIG=", "SERVING_LOGGING_CONFIG=")
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
}

// For a Service named profiling, Kubernetes sets PROFILING_PORT in the pods of its
// namespace. The gate must not read that variable as its setting.
func TestServiceLinkVariablesAndMisspeltSettingsCauseWarnings(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "PROFILING_PORT=tcp://10.96.12.3:80", "APP_PROBE_PORT=udp://10.96.12.4:53", "CONTAINER_CONCURENCY=5",
		"PROFILING_SERVICE_HOST=10.96.12.3", "KUBERNETES_SERVICE_HOST=10.96.0.1")
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
	g.logs(`"message":"serving"`) // the last line of the start
	links, misspelt := 0, 0
	for _, l := range ownLines(g) {
		if strings.Contains(l.Message, "PROFILING_PORT") && strings.Contains(l.Message, "APP_PROBE_PORT") && l.Severity == "warn" {
			links++
		}
		if strings.Contains(l.Message, "CONTAINER_CONCURENCY") && strings.Contains(l.Message, "did you mean CONTAINER_CONCURRENCY?") {
			misspelt++
		}
	}
	if links != 1 || misspelt != 1 {
		t.Errorf("%d warnings of links and %d of misspelt names, want 1 of each:\n%s", links, misspelt, g.Stderr.String())
	}
}

func TestAMisspeltFlagOrCommandIsAnErrorThatNamesTheRightOne(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"--user-prot=81": "did you mean --user-port?", "drian": "did you mean queue drain?"} {
		code, _, stderr := runQueue(t, baseEnv(t), arg)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stderr %q", arg, code, stderr)
		}
	}
}

func TestAnUnknownTracingBackendCausesAWarning(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "SERVING_REQUEST_METRICS_BACKEND=stackdriver", "TRACING_CONFIG_BACKEND=stackdriver",
		`OBSERVABILITY_CONFIG={"LoggingURLTemplate":"x","EnableVarLogCollection":false,"later":1}`)
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
	g.logs(`"message":"serving"`) // the last line of the start
	for _, want := range []string{"SERVING_REQUEST_METRICS_BACKEND=stackdriver", "TRACING_CONFIG_BACKEND=stackdriver", `unknown key \"later\"`} {
		if strings.Count(g.Stderr.String(), want) != 1 {
			t.Errorf("stderr does not say %s once:\n%s", want, g.Stderr.String())
		}
	}
	if strings.Contains(g.Stderr.String(), "LoggingURLTemplate") {
		t.Errorf("a known key causes a warning:\n%s", g.Stderr.String())
	}
}

type ownLine struct {
	Severity, Logger, Message string
	Key                       string `json:"knative.dev/key"`
	Pod                       string `json:"knative.dev/pod"`
}

func ownLines(g *gate) (lines []ownLine) {
	g.t.Helper()
	for text := range strings.Lines(g.Stderr.String()) {
		if !strings.HasSuffix(text, "\n") {
			continue // incomplete
		}
		var l ownLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			g.t.Errorf("line %q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// Knative's default installation sets SERVING_LOGGING_CONFIG to "".
func TestLogLinesHaveTheFieldsOfKnativesLogs(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	identity := []string{"SERVING_NAMESPACE=ns", "SERVING_CONFIGURATION=hello", "SERVING_REVISION=hello-00001", "SERVING_POD=hello-x"}
	for config, severity := range map[string]string{"": "INFO", `{"encoderConfig":{"levelKey":"severity","messageKey":"message","nameKey":"logger","levelEncoder":""}}`: "info"} {
		g := startGate(t, k, append(identity, "SERVING_LOGGING_CONFIG="+config)...)
		c, p := inFlight(t, k, g, "/")
		finish(c, p)
		g.logs(`"message":"serving"`) // the last line of the start
		lines := ownLines(g)
		for _, l := range lines {
			if l.Severity != severity || l.Logger != "queueproxy" || l.Key != "ns/hello-00001" || l.Pod != "hello-x" || l.Message == "" {
				t.Errorf("configuration %q: got %+v", config, l)
			}
		}
	}
}

func TestTheFlagsCheckVersionAndHelpPrintAndExit(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		arg   string
		wants []string
	}{
		{"--check", []string{"USER_PORT", "4321", "REVISION_TIMEOUT_SECONDS", "300"}},
		{"--version", []string{"go1."}},
		{"--help", []string{"--user-port", "CONTAINER_CONCURRENCY", "queue drain"}},
	} {
		code, stdout, stderr := runQueue(t, append(baseEnv(t), "USER_PORT=4321"), x.arg)
		if code != 0 {
			t.Errorf("%s: code %d, stderr %q", x.arg, code, stderr)
		}
		for _, want := range x.wants {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: stdout lacks %q:\n%s", x.arg, want, stdout)
			}
		}
	}
}

func TestAFlagOverridesTheEnvironment(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runQueue(t, append(baseEnv(t), "USER_PORT=4321"), "--check", "--user-port", "1234")
	if code != 0 || !strings.Contains(stdout, "1234") || strings.Contains(stdout, "4321") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}
