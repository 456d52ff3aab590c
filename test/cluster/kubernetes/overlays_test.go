package kubernetes

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The test applies each overlay. The API server rejects unknown fields and wrong types.
// For the resources of KEDA and of the Prometheus operator, it does so only if their
// custom resource definitions are installed. KEDA and the operator themselves are not
// installed.
func TestTheOverlaysAreAcceptedByTheAPIServer(t *testing.T) {
	t.Parallel()
	cluster.InstallDefinitions(t)
	namespace := cluster.Namespace(t)
	for _, overlay := range []struct{ name, resources string }{
		{"hpa", "horizontalpodautoscaler/web"},
		{"keda", "scaledobject/web"},
		{"prometheus-operator", "podmonitor/queuegate prometheusrule/queuegate"},
	} {
		t.Run(overlay.name, func(t *testing.T) {
			directory := "../../../config/overlays/" + overlay.name
			cluster.Kubectl(t, "-n", namespace, "apply", "--validate=strict", "-k", directory)
			rolledOut(t, namespace)
			cluster.Kubectl(t, append([]string{"-n", namespace, "get"}, strings.Fields(overlay.resources)...)...)
			cluster.Kubectl(t, "-n", namespace, "delete", "-k", directory)
		})
	}
	t.Run("a mistake is rejected", func(t *testing.T) {
		manifest := readFile(t, "../../../config/overlays/keda/scaledobject.yaml")
		for valid, invalid := range map[string]string{"pollingInterval: 15": "pollInterval: 15", "minReplicaCount: 2": "minReplicaCount: two"} {
			apply := exec.Command("kubectl", "-n", namespace, "apply", "--validate=strict", "-f", "-")
			apply.Stdin = strings.NewReader(strings.Replace(manifest, valid, invalid, 1))
			if out, err := apply.CombinedOutput(); err == nil {
				t.Errorf("%s: %s", invalid, out)
			}
		}
	})
}
