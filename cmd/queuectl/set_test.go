package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/cmd/queuectl/internal/manifest"
)

func TestSetHasTheLiveSettingsOfTheGate(t *testing.T) {
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	for _, row := range regexp.MustCompile("(?m)^\\| `[A-Z0-9_]+`.* \\| `--([a-z0-9-]+)` \\|.*\\[Live\\]").FindAllStringSubmatch(string(docs), -1) {
		live = append(live, row[1])
	}
	if !slices.Equal(live, manifest.LiveSettings) {
		t.Errorf("the gate has %q, set has %q", live, manifest.LiveSettings)
	}
	if code, out, stderr := ctl(t, "", "set", "--list"); code != 0 || out != strings.Join(live, "\n")+"\n" {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
}

func TestSetPrintsTheKubectlCommand(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"concurrency=10 pod/web-1 -n shop", "kubectl --namespace=shop annotate --overwrite pod/web-1 queuegate.dev/concurrency=10\n"},
		{"queuegate.dev/concurrency=10 timeout- -l app=web", "kubectl annotate --overwrite pods -l app=web queuegate.dev/concurrency=10 queuegate.dev/timeout-\n"},
		{"request-log-template={{.Request.Method}} pod/a pod/b", "kubectl annotate --overwrite pod/a pod/b 'queuegate.dev/request-log-template={{.Request.Method}}'\n"},
	} {
		if code, out, stderr := ctl(t, "", append([]string{"set"}, strings.Fields(c.args)...)...); code != 0 || out != c.want {
			t.Errorf("%s: code %d, %s\n got %s want %s", c.args, code, stderr, out, c.want)
		}
	}
}

func TestSetRejectsInvalidSettings(t *testing.T) {
	for args, want := range map[string]string{
		"port=80 pod/web":                    `"port" is not a setting that can change while the gate runs`,
		"concurrency pod/web":                "want SETTING=VALUE",
		"pod/web":                            "want a setting",
		"concurrency=1":                      "want pod/NAME",
		"concurrency=1 pod/web -l app=web":   "want pod/NAME",
		"concurrency=1 concurrency- pod/a":   "is repeated",
		"concurrency=1 -f x.yaml -l app=web": "want either manifests",
	} {
		if code, _, stderr := ctl(t, "", append([]string{"set"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
}

func TestSetRunsKubectl(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$@\" >> " + log + "\ncase \"$*\" in *missing*) echo 'pods \"missing\" not found' >&2; exit 1;; esac\necho pod/web annotated\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if code, out, stderr := ctl(t, "", "set", "concurrency=3", "pod/web", "--apply"); code != 0 || out != "pod/web annotated\n" {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	if code, _, stderr := ctl(t, "", "set", "concurrency=3", "pod/missing", "--apply"); code != exitFailed || !strings.Contains(stderr, `pods "missing" not found`) {
		t.Errorf("code %d, %s", code, stderr)
	}
	calls, _ := os.ReadFile(log)
	if want := "annotate --overwrite pod/web queuegate.dev/concurrency=3\n"; !strings.HasPrefix(string(calls), want) {
		t.Errorf("called with %q, want %q", calls, want)
	}
}

const knativeText = `# a service
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: hello # of the team
spec:
  template:
    spec:
      containers:
      - image: hello:1
`

func TestSetAnnotatesThePodsOfManifests(t *testing.T) {
	code, out, stderr := ctl(t, knativeText+"---\n"+podText, "set", "concurrency=10", "timeout=30", "-f", "-")
	want := strings.Replace(knativeText, "    spec:\n", "    metadata:\n      annotations:\n        queuegate.dev/concurrency: \"10\"\n        queuegate.dev/timeout: \"30\"\n    spec:\n", 1) + "---\n" +
		strings.Replace(podText, "metadata:\n", "metadata:\n  annotations:\n    queuegate.dev/concurrency: \"10\"\n    queuegate.dev/timeout: \"30\"\n", 1)
	if code != 0 || out != want || stderr != "" {
		t.Fatalf("code %d, %s\ngot:\n%s\nwant:\n%s", code, stderr, out, want)
	}
	if code, out, stderr = ctl(t, want, "set", "concurrency=5", "timeout-", "-f", "-"); code != 0 || strings.Contains(out, "timeout") || strings.Count(out, `concurrency: "5"`) != 2 || stderr != "" {
		t.Errorf("code %d, %s\ngot:\n%s", code, stderr, out)
	}
	if _, swapped, _ := ctl(t, out, "set", "timeout=30", "concurrency-", "-f", "-"); strings.Count(swapped, "queuegate.dev/timeout: \"30\"") != 2 || strings.Contains(swapped, "concurrency") {
		t.Errorf("got:\n%s", swapped)
	}
	if _, back, _ := ctl(t, out, "set", "timeout=30", "concurrency=10", "-f", "-"); strings.Count(back, "queuegate.dev/") != 4 || strings.Count(back, "\n") != strings.Count(want, "\n") {
		t.Errorf("got:\n%s", back)
	}
}

func TestSetDoesNotChangeAnInjectedPod(t *testing.T) {
	_, injected, _ := ctl(t, podText, "inject", "-f", "-", "--image", "gate:1", "--live-settings")
	code, out, stderr := ctl(t, injected, "set", "concurrency=10", "-f", "-", "--strict")
	if code != exitFailed || out != injected || !strings.Contains(stderr, "pod/web: left unchanged: it already has the gate") {
		t.Errorf("code %d, %s\n%s", code, stderr, out)
	}
	code, set, stderr := ctl(t, podText, "set", "concurrency=10", "-f", "-")
	if code != 0 {
		t.Fatal(stderr)
	}
	_, injected, _ = ctl(t, set, "inject", "-f", "-", "--image", "gate:1", "--live-settings")
	if code, back, stderr := ctl(t, injected, "uninject", "-f", "-"); code != 0 || back != set || !strings.Contains(injected, "queuegate.dev/concurrency: \"10\"") {
		t.Errorf("code %d, %s\n%s", code, stderr, back)
	}
}
