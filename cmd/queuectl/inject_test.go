package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ctl runs queuectl.
func ctl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&complaints)
	code = run(root)
	return code, out.String(), complaints.String()
}

const podText = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n    ports:\n    - containerPort: 80\n"

func TestInjectAndUninjectOnStdin(t *testing.T) {
	code, injected, stderr := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1")
	if code != 0 || !strings.Contains(injected, "image: gate:1") || stderr != "" {
		t.Fatalf("code %d, %s\n%s", code, stderr, injected)
	}
	if code, back, stderr := ctl(t, injected, "uninject", "-f", "-"); code != 0 || back != podText || stderr != "" {
		t.Errorf("code %d, %s\n%s", code, stderr, back)
	}
}

func TestInjectReadsDirectoriesAndSeparatesTheDocumentsOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", strings.TrimSuffix(podText, "\n"))
	write("b.yml", "---\n"+podText)
	write("c.txt", "no manifest")
	write("sub/d.yaml", podText)
	code, out, stderr := ctl(t, "", "inject", "-f", dir, "--image", "gate:1")
	if code != 0 || strings.Count(out, "kind: Pod") != 2 || strings.Count("\n"+out, "\n---\n") != 1 || strings.Count(out, "image: gate:1") != 2 {
		t.Errorf("code %d, %s\n%s", code, stderr, out)
	}
	if _, out, _ := ctl(t, "", "inject", "-Rf", dir, "--image", "gate:1"); strings.Count(out, "image: gate:1") != 3 {
		t.Errorf("not recursive:\n%s", out)
	}
	if code, out, stderr := ctl(t, "", "inject", "-wRf", dir, "--image", "gate:1"); code != 0 || out != "" {
		t.Errorf("code %d, %s\n%s", code, stderr, out)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "sub/d.yaml")); !strings.Contains(string(text), "gate:1") {
		t.Error("the file was not written")
	}
	if code, _, _ := ctl(t, "", "uninject", "-wRf", dir); code != 0 {
		t.Error(code)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "sub/d.yaml")); string(text) != podText {
		t.Errorf("got %s", text)
	}
}

func TestDiffShowsWhatWouldChange(t *testing.T) {
	code, out, _ := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1", "--diff")
	if code != 0 || !strings.HasPrefix(out, "--- stdin\n+++ stdin\n@@ ") || !strings.Contains(out, "\n+      image: gate:1\n") || strings.Contains(out, "\n-") {
		t.Errorf("code %d\n%s", code, out)
	}
	if _, out, _ := ctl(t, "kind: X\n", "inject", "-f", "-", "--image", "gate:1", "--diff"); out != "" {
		t.Errorf("got %q", out)
	}
}

func TestUnchangedObjectsAreReportedOnStderr(t *testing.T) {
	text := strings.ReplaceAll(podText, "    ports:\n    - containerPort: 80\n", "")
	for _, c := range []struct {
		text string
		args string
		code int
	}{{text, "inject -f -", 1}, {text, "inject -f - --strict", 1}, {"a: [", "inject -f -", 1}, {"a: [", "uninject -f -", 1}} {
		args := strings.Fields(c.args)
		if args[0] == "inject" {
			args = append(args, "--image=x")
		}
		code, out, stderr := ctl(t, c.text, args...)
		if code != c.code || out != c.text || !strings.HasPrefix(stderr, "stdin: ") || !strings.Contains(stderr, "left unchanged") {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, stderr)
		}
	}
}

func TestPortsOutOfRangeExitWithCode1(t *testing.T) {
	for _, port := range []string{"65536", "1e9", "-8080", "0", `"70000"`, "8080.5", "99999999999999999999", ".inf"} {
		sidecar := "  - name: metrics\n    image: x\n    ports:\n    - containerPort: 9100\n    - {name: m, containerPort: " + port + "}\n"
		want := "container metrics: ports[1].containerPort " + strings.Trim(port, `"`) + ": want a port number from 1 to 65535"
		code, out, stderr := ctl(t, podText+sidecar, "inject", "-f", "-", "--image", "x")
		if code != 1 || out != podText+sidecar || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q\n%s", port, code, stderr, out)
		}
	}
	for _, port := range []string{"1", "65535", "0x1F90", "8.08e3", `"8080"`} {
		text := strings.Replace(podText, "containerPort: 80\n", "containerPort: "+port+"\n", 1)
		if code, _, stderr := ctl(t, text, "inject", "-f", "-", "--image", "x"); code != 0 {
			t.Errorf("%s: code %d, %q", port, code, stderr)
		}
	}
}

func TestAWrongCommandLineExitsWithCode2(t *testing.T) {
	t.Setenv("QUEUEGATE_IMAGE", "")
	for args, want := range map[string]string{
		"inject -f x":      "--image",
		"inject --image x": "-f: which",
		"inject --imgae x": "unknown flag: --imgae",
		"inject --image x -f - --set QUEUE_CAPCITY=1":           "--set: \"QUEUE_CAPCITY=1\": the gate has no setting QUEUE_CAPCITY, did you mean QUEUE_CAPACITY?",
		"inject --image x -f - --resources cpu=1":               "--resources: \"cpu=1\": want requests.NAME=QUANTITY",
		"inject --image x -f - --resources requests.memory=1Gi": "requests.memory=1Gi is above limits.memory=128Mi",
		"inject --image x -f - --accept everything":             "accept \"everything\": want headless",
		"inject --image x -f - --user-port 70000":               "--user-port 70000",
		"injct":                  "did you mean inject?",
		"inject stray":           `argument "stray"`,
		"nothing-like-it at all": "unknown command",
	} {
		if code, _, stderr := ctl(t, "", strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q", args, code, stderr)
		}
	}
	if code, _, stderr := ctl(t, "", "inject", "--image", "x", "-f", "/no/such/file"); code != exitFailed || !strings.Contains(stderr, "/no/such/file") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// A workload without a port is an error unless another workload has a gate.
func TestInjectFailsIfNoWorkloadGetsAGate(t *testing.T) {
	worker := strings.ReplaceAll(podText, "    ports:\n    - containerPort: 80\n", "")
	if code, _, stderr := ctl(t, podText+"---\n"+worker, "inject", "-f", "-", "--image", "x"); code != 0 || !strings.Contains(stderr, "has no port") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, _ := ctl(t, "kind: ConfigMap\n", "inject", "-f", "-", "--image", "x"); code != 0 {
		t.Errorf("without a workload: code %d", code)
	}
}

func TestInjectReportsThatItFoundNoWorkload(t *testing.T) {
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	if code, out, stderr := ctl(t, text, "inject", "-f", "-", "--image", "gate:1"); code != 0 || out != text || !strings.Contains(stderr, "found no workload") {
		t.Errorf("code %d, stderr %q, %s", code, stderr, out)
	}
	if _, _, stderr := ctl(t, text, "uninject", "-f", "-"); stderr != "" {
		t.Errorf("uninject: stderr %q", stderr)
	}
}

func TestTrafficThatBypassesTheGateExitsWithCode1(t *testing.T) {
	text := strings.Replace(podText, "- containerPort: 80\n", "- containerPort: 80\n      hostPort: 80\n", 1)
	code, injected, stderr := ctl(t, text, "inject", "-f", "-", "--image", "queuegate:1")
	if code != 1 || !strings.Contains(stderr, "hostPort 80") || !strings.Contains(injected, "queuegate:1") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := ctl(t, text, "inject", "-f", "-", "--image", "queuegate:1", "--accept", "host-port"); code != 0 || !strings.Contains(stderr, "hostPort 80") {
		t.Errorf("accepted: code %d, %s", code, stderr)
	}
	if code, out, _ := ctl(t, injected, "doctor", "-f", "-"); code != 1 || !strings.Contains(out, "error: container web: hostPort 80") {
		t.Errorf("doctor: code %d, %s", code, out)
	}
	if code, out, _ := ctl(t, injected, "doctor", "-f", "-", "--accept", "host-port"); code != 0 || !strings.Contains(out, "warning: container web: hostPort 80") {
		t.Errorf("doctor, accepted: code %d, %s", code, out)
	}
}

func TestAServiceOfTheSameFileIsPointedAtTheGate(t *testing.T) {
	text := strings.Replace(podText, "  name: web\n", "  name: web\n  labels: {app: web}\n", 1) + "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  ports:\n  - port: 80\n"
	code, injected, stderr := ctl(t, text, "inject", "-f", "-", "--image", "queuegate:1")
	if code != 0 || !strings.Contains(injected, "targetPort: queue-http") || stderr != "" {
		t.Errorf("code %d, %s\n%s", code, stderr, injected)
	}
	code, injected, stderr = ctl(t, text, "inject", "-f", "-", "--image", "queuegate:1", "--services=false")
	if code != 1 || strings.Contains(injected, "targetPort") || !strings.Contains(stderr, "service/web: port 80 leads to the application and bypasses the gate") {
		t.Errorf("code %d, %s\n%s", code, stderr, injected)
	}
}

func TestAnEditedGateThatCannotBeRemovedExitsWithCode1(t *testing.T) {
	_, injected, _ := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1")
	edited := strings.Replace(injected, "queuegate.dev/injected: '{", "queuegate.dev/injected: '", 1)
	for _, args := range [][]string{{"uninject", "-f", "-"}, {"inject", "-f", "-", "--image", "gate:1"}} {
		code, out, stderr := ctl(t, edited, args...)
		if code != 1 || out != edited || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "queuegate.dev/injected cannot be read") {
			t.Errorf("%s: code %d, %s\n%s", args[0], code, stderr, out)
		}
	}
}
