package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/queuegate/queuegate/test/cluster"
)

var forms = []struct {
	name   string
	change func(*appsv1.Deployment)
}{{"native sidecar", func(*appsv1.Deployment) {}}, {"plain container", plainForm}}

func TestARollOutUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			base(t, form.change).apply(t, namespace)
			load := cluster.StartLoad(t, address(t, namespace), "", cluster.Kinds()...)
			cluster.Kubectl(t, "-n", namespace, "rollout", "restart", "deployment", "web")
			rolledOut(t, namespace)
			// Old pods drain while new pods serve.
			cluster.Eventually(t, func() error {
				if remaining := strings.Fields(cluster.Kubectl(t, "-n", namespace, "get", "pods", "-o", "name")); len(remaining) > 2 {
					return fmt.Errorf("pods %v", remaining)
				}
				return nil
			})
			load.StopComplete(t)
		})
	}
}
