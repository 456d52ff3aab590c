package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// systemNamespace is where Knative Serving runs.
const systemNamespace = "knative-serving"

// InstallKnative installs Knative Serving from its modules, with local image names and
// lower CPU requests.
func InstallKnative(t *testing.T) {
	t.Helper()
	serving, networking, caching := os.Getenv(servingVariable), os.Getenv(networkingVariable), os.Getenv(cachingVariable)
	core := filepath.Join(serving, "config", "core")
	for _, patterns := range [][]string{
		{filepath.Join(core, "100-namespace.yaml")},
		{filepath.Join(core, "300-resources", "*.yaml"), filepath.Join(networking, "config", "*.yaml"), filepath.Join(caching, "config", "*.yaml")},
		{filepath.Join(core, "200-*.yaml"), filepath.Join(core, "200-roles", "*.yaml"), filepath.Join(core, "configmaps", "*.yaml")},
	} {
		KubectlWith(t, documents(t, patterns...), "apply", "--server-side", "--force-conflicts", "-f", "-")
	}
	ConfigureKnative(t, "config-network", map[string]string{"ingress-class": "test.ingress.networking.knative.dev"})
	ConfigureKnative(t, "config-domain", map[string]string{"example.com": ""})
	// The tests' namespaces admit only restricted pods.
	ConfigureKnative(t, "config-features", map[string]string{"secure-pod-defaults": "enabled"})
	// Scale down after seconds instead of minutes.
	ConfigureKnative(t, "config-autoscaler", map[string]string{"scale-to-zero-grace-period": "6s", "stable-window": "6s"})
	KubectlWith(t, documents(t, filepath.Join(core, "deployments", "*.yaml"), filepath.Join(core, "webhooks", "*.yaml")),
		"apply", "--server-side", "--force-conflicts", "-f", "-")
	for _, name := range []string{"controller", "webhook", "autoscaler", "activator"} {
		Kubectl(t, "-n", systemNamespace, "set", "resources", "deployment", name, "--requests=cpu=10m,memory=20Mi")
	}
	for _, name := range []string{"controller", "webhook", "autoscaler", "activator"} {
		Kubectl(t, "-n", systemNamespace, "rollout", "status", "deployment", name, fmt.Sprintf("--timeout=%v", WaitTimeout))
	}
}

var installOnce sync.Once

// UseSidecar makes Knative use this image as the sidecar. Knative must be installed.
func UseSidecar(t *testing.T, name string) {
	t.Helper()
	installOnce.Do(func() { InstallKnative(t) })
	ConfigureKnative(t, "config-deployment", map[string]string{
		"queue-sidecar-image": KnativeRegistry + "/" + name + ":" + KnativeTag,
		// The requests are low, and equal for both sidecars, because the test compares
		// their memory.
		"queue-sidecar-memory-request": "20Mi", "queue-sidecar-cpu-request": "10m", "queue-sidecar-cpu-limit": "1000m",
		"queue-sidecar-memory-limit": "800Mi", "queue-sidecar-ephemeral-storage-request": "1Mi",
	})
}

// ConfigureKnative changes values in a config map of Knative.
func ConfigureKnative(t *testing.T, name string, values map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": values})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, func() error { // Knative's webhook may not be ready yet
		out, err := exec.Command("kubectl", "-n", systemNamespace, "patch", "configmap", name, "--type=merge", "-p", string(patch)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// documents returns the files that match the patterns, joined to one YAML stream. It
// replaces each image reference (ko://...) by the name of the image that the build made.
func documents(t *testing.T, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no file matches %s (%v)", pattern, err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(content)) {
				if before, path, found := strings.Cut(line, "ko://"); found {
					line = before + KnativeRegistry + "/" + filepath.Base(strings.TrimSpace(path)) + ":" + KnativeTag + "\n"
				}
				all.WriteString(line)
			}
			all.WriteString("\n---\n")
		}
	}
	return all.String()
}
