package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc/testdata"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// interopCases are the cases of gRPC's interop suite for a server without authentication
// and extensions (ORCA, server identities).
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
	"status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service", "rpc_soak", "channel_soak",
}

func TestGRPCInteropSuitePassesThroughTheGate(t *testing.T) {
	t.Parallel()
	client, server := judge(t, "google.golang.org/grpc/interop/client"), judge(t, "google.golang.org/grpc/interop/server")
	port := launch.FreePort(t)
	run(t, server, "--port", strconv.Itoa(port))
	eventually(t, "the interop server listens", func() bool { return launch.Accepts(podAddress(port)) })
	secure := launch.FreePort(t)
	g := startGate(t, port, "CERT_DIR="+testCertificate(t), "QUEUE_SERVING_TLS_PORT="+strconv.Itoa(secure))
	eventually(t, "the TLS port listens", func() bool { return launch.Accepts(podAddress(secure)) })
	for transport, args := range map[string][]string{
		"h2c": {"--server_port", strconv.Itoa(g.port)},
		"TLS": {"--server_port", strconv.Itoa(secure), "--use_tls", "--use_test_ca", "--ca_file", testdata.Path("ca.pem"), "--server_host_override", "foo.test.google.fr"},
	} {
		for _, name := range interopCases {
			t.Run(transport+" "+name, func(t *testing.T) {
				text, err := exec.Command(client, append(args, "--server_host", podIP, "--test_case", name,
					"--soak_iterations", "100", "--soak_max_failures", "0", "--soak_per_iteration_max_acceptable_latency_ms", "10000")...).CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, text)
				}
			})
		}
	}
}

// testCertificate returns a directory with the certificate of gRPC's tests.
func testCertificate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{"server1.pem": "tls.crt", "server1.key": "tls.key"} {
		text, err := os.ReadFile(testdata.Path(from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run starts a program that is killed at the end of the test.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns an error, because the process was killed
	})
}

// judge builds a third-party program that tests the gate, and returns the path of its
// binary. The program must be one of the tools in this module's go.mod.
func judge(t *testing.T, path string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "judge")
	if text, err := exec.Command("go", "build", "-o", binary, path).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", path, err, text)
	}
	return binary
}
