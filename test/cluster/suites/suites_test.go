package suites

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/cluster"
)

// ingress is the Service that the suites look up. The port does not matter, because the
// suites then use a configured address.
const ingress = `apiVersion: v1
kind: Service
metadata: {name: ingress, namespace: knative-serving}
spec: {ports: [{port: 1}]}
`

// TestRequestLogs expects this request log template.
const template = `{"httpRequest": {"requestMethod": "{{.Request.Method}}", "requestUrl": "{{js .Request.RequestURI}}", "requestSize": "{{.Request.ContentLength}}", "status": {{.Response.Code}}, "responseSize": "{{.Response.Size}}", "userAgent": "{{js .Request.UserAgent}}", "remoteIp": "{{js .Request.RemoteAddr}}", "serverIp": "{{.Revision.PodIP}}", "referer": "{{js .Request.Referer}}", "latency": "{{.Response.Latency}}s", "protocol": "{{.Request.Proto}}"}, "traceId": "{{.TraceID}}"}`

// A setting has the name of one of Knative's config maps, and the new values of some of
// its keys.
type setting struct {
	name   string
	values map[string]string
}

// The suites run in this order, as in Knative's scripts. A setting stays in force for
// later suites.
var suites = []struct {
	settings []setting
	paths    []string
}{
	{
		[]setting{
			{"config-autoscaler", map[string]string{"stable-window": "60s", "scale-to-zero-grace-period": "30s"}},
			{"config-features", map[string]string{"secure-pod-defaults": "disabled"}},
			{"config-deployment", map[string]string{"progress-deadline": "120s"}},
			{"config-network", map[string]string{"autocreate-cluster-domain-claims": "true"}},
			{"config-observability", map[string]string{
				"logging.request-log-template": template, "logging.enable-request-log": "true", "logging.enable-probe-request-log": "true"}},
		},
		[]string{"conformance/runtime", "conformance/api/v1", "conformance/api/v1beta1", "e2e"},
	},
	{
		[]setting{
			{"config-features", map[string]string{"tag-header-based-routing": "enabled", "kubernetes.podspec-init-containers": "enabled", "multi-container-probing": "enabled"}},
			{"config-autoscaler", map[string]string{"allow-zero-initial-scale": "true"}},
		},
		[]string{"e2e/tagheader", "e2e/initscale", "e2e/initcontainers", "e2e/multicontainerprobing"},
	},
	{
		[]setting{
			{"config-features", map[string]string{"secure-pod-defaults": "enabled"}},
			{"config-gc", map[string]string{"retain-since-create-time": "disabled", "retain-since-last-active-time": "disabled", "min-non-active-revisions": "0", "max-non-active-revisions": "0"}},
		},
		[]string{"e2e/securedefaults", "e2e/gc"},
	},
}

// The results are written to docs/knative.md.
func TestKnativesOwnSuitesRunWithTheGate(t *testing.T) {
	cluster.UseSidecar(t, "queuegate")
	resources := filepath.Join(cluster.ServingDirectory(), "test", "config")
	for _, file := range []string{"cluster-resources.yaml", "test-resources.yaml", "resource-quota/resource-quota.yaml"} {
		cluster.Kubectl(t, "apply", "-f", filepath.Join(resources, file))
	}
	cluster.KubectlWith(t, ingress, "apply", "-f", "-")
	all := 0
	var table strings.Builder
	table.WriteString("| tests of the module's directory `test` | passed | not passed |\n|---|---|---|\n")
	for _, s := range suites {
		for _, c := range s.settings {
			cluster.ConfigureKnative(t, c.name, c.values)
		}
		for _, path := range s.paths {
			all++
			t.Run(strings.ReplaceAll(path, "/", "-"), func(t *testing.T) {
				passed, others := runSuite(t, path)
				slices.Sort(others)
				fmt.Fprintf(&table, "| `%s` | %d | %s |\n", path, passed, cmp.Or(strings.Join(others, "; "), "none"))
			})
		}
	}
	t.Logf("\n%s", table.String())
	if t.Failed() || os.Getenv("SUITE_RUN") != "" || strings.Count(table.String(), "\n") < 2+all {
		return // do not record a failed or incomplete run
	}
	if err := cluster.Rewrite("../../../docs/knative.md", "own suites", table.String()); err != nil {
		t.Error(err)
	}
}

// runSuite returns the number of tests that passed, and descriptions of the others.
func runSuite(t *testing.T, path string) (passed int, unexpected []string) {
	only := os.Getenv("SUITE_RUN") // optional pattern for names of tests
	run := exec.Command(cluster.Suite(path), "-test.run="+only, "-test.v", "-test.parallel=3", "-test.timeout=60m", "-dockerrepo="+cluster.KnativeRegistry,
		"-tag="+cluster.KnativeTag, "-ingressendpoint="+cluster.NodeAddress, "-disable-logstream", "-enable-alpha", "-enable-beta")
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "SYSTEM_NAMESPACE=knative-serving", "GATEWAY_OVERRIDE=ingress", "GATEWAY_NAMESPACE_OVERRIDE=knative-serving")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run.Stderr = run.Stdout
	log := cluster.Log(t, strings.ReplaceAll(path, "/", "-"))
	began := time.Now()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.TeeReader(out, log))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		result, name, ok := result(lines.Text())
		reason := expected[name]
		switch {
		case !ok:
		case result == "PASS":
			passed++
			fmt.Println(result, name)
			if reason != "" {
				t.Errorf("%s passes: take it off the list", name)
			}
		case reason != "":
			unexpected = append(unexpected, fmt.Sprintf("`%s`: %s", name, reason))
		default:
			t.Errorf("%s %s: see %s", result, name, log.Name())
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	run.Wait() // wait for all results
	t.Logf("%d passed, %d not, in %.0f s", passed, len(unexpected), time.Since(began).Seconds())
	if passed == 0 && len(unexpected) == 0 {
		t.Errorf("no test was run: see %s", log.Name())
	}
	return passed, unexpected
}

// result parses a line with the result of a test, or the first line of a panic. For other
// lines, and for the results of subtests, ok is false.
func result(line string) (result, name string, ok bool) {
	if strings.HasPrefix(line, "panic: ") {
		return "FAIL", line, true
	}
	rest, ok := strings.CutPrefix(line, "--- ")
	result, name, _ = strings.Cut(rest, ": ")
	name, _, _ = strings.Cut(name, " ")
	return result, name, ok
}
