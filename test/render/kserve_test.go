package render

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const kserveModule = "github.com/kserve/kserve@v0.16.0"

func TestTheManifestsForKServeFitItsDefinitions(t *testing.T) {
	for file, d := range map[string]struct{ definition, version string }{
		"servingruntime.yaml":   {"serving.kserve.io_servingruntimes.yaml", "v1alpha1"},
		"inferenceservice.yaml": {"serving.kserve.io_inferenceservices.yaml", "v1beta1"},
	} {
		s := definition(t, kserveModule, "config/crd/full/"+d.definition, d.version)
		content := readYAML(t, configDir+"kserve/"+file)
		for _, p := range s.problems("", content) {
			t.Errorf("%s: %s", file, p)
		}
		content["spec"].(map[string]any)["containerz"] = 1
		if p := s.problems("", content); len(p) != 1 {
			t.Errorf("%s: one mistake is reported as %q", file, p)
		}
	}
}

// KServe's Service targets the first port of kserve-container
// (pkg/controller/v1beta1/inferenceservice/reconcilers/service).
func TestTheServiceOfKServeTargetsThePortOfTheGate(t *testing.T) {
	var runtime struct {
		Spec struct{ Containers []corev1.Container }
	}
	text, err := json.Marshal(readYAML(t, configDir+"kserve/servingruntime.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &runtime); err != nil {
		t.Fatal(err)
	}
	containers := runtime.Spec.Containers
	if len(containers) != 2 || containers[0].Name != "kserve-container" || containers[1].Name != "queuegate" {
		t.Fatalf("want kserve-container, then queuegate")
	}
	server, gate := containers[0], containers[1]
	if port := server.Ports[0].ContainerPort; port != 8012 || port != gate.ReadinessProbe.HTTPGet.Port.IntVal {
		t.Errorf("the Service targets port %d, the gate is probed on %v", port, gate.ReadinessProbe.HTTPGet.Port)
	}
	if server.ReadinessProbe == nil || server.ReadinessProbe.HTTPGet.Port.IntVal != 8080 {
		t.Error("want a readiness probe of the server's own port, 8080")
	}

	check := exec.Command("go", "run", "-C", "../..", "./cmd/queue", "--check")
	check.Env = os.Environ()
	for _, v := range gate.Env {
		if v.ValueFrom == nil {
			check.Env = append(check.Env, v.Name+"="+v.Value)
		}
	}
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("queue --check: %v\n%s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	for _, want := range []string{"USER_PORT=8080", "QUEUE_SERVING_PORT=8012", "WAIT_KEEPALIVE=15s"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("queue --check does not print %s:\n%s", want, out)
		}
	}
}
