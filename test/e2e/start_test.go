package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestATakenPortGivesAClearErrorAndCode1(t *testing.T) {
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

func TestBadConfigurationIsReportedWholeWithCode2(t *testing.T) {
	bad := []string{
		"CONTAINER_CONCURRENCY=-1", "USER_PORT=x", "QUEUE_SERVING_PORT=0x50", "REVISION_TIMEOUT_SECONDS=0",
		"REVISION_IDLE_TIMEOUT_SECONDS=-2", "QUEUE_CAPACITY=many", "QUEUE_MAX_WAIT=soon", "CONCURRENCY_HARD=perhaps",
		"CLIENT_HALF_CLOSE=never", "DRAIN_QUIET_SECONDS=-1", "SERVING_READINESS_PROBE={}", "SERVING_LOGGING_LEVEL=loud",
	}
	for _, args := range [][]string{nil, {"--check"}} {
		code, _, stderr := runQueue(t, append(baseEnv(t), bad...), args...)
		if code != 2 {
			t.Errorf("%v: code %d, want 2", args, code)
		}
		for _, b := range bad {
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

func TestEmptyValuesOfKnativeMeanUnset(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k, "ROOT_CA=", "QUEUE_PROXY_TLS_MIN_VERSION=", "QUEUE_PROXY_TLS_MAX_VERSION=", "QUEUE_PROXY_TLS_CIPHER_SUITES=",
		"QUEUE_PROXY_TLS_CURVE_PREFERENCES=", "SERVING_LOGGING_LEVEL=", "SERVING_SERVICE=", "SERVING_READINESS_PROBE=",
		"CONTAINER_CONCURRENCY=0", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=0", "REVISION_IDLE_TIMEOUT_SECONDS=0",
		"REVISION_TIMEOUT_SECONDS=604800", "OBSERVABILITY_CONFIG=", "SERVING_LOGGING_CONFIG=")
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
}

func TestCheckVersionAndHelpPrintAndExit(t *testing.T) {
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

func TestAFlagBeatsTheEnvironment(t *testing.T) {
	code, stdout, stderr := runQueue(t, append(baseEnv(t), "USER_PORT=4321"), "--check", "--user-port", "1234")
	if code != 0 || !strings.Contains(stdout, "1234") || strings.Contains(stdout, "4321") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}
