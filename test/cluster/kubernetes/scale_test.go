package kubernetes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// An adapter reads the figures from the gates' metrics pages, without
// Prometheus.
func TestAHorizontalPodAutoscalerScalesByTheGatesMetrics(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one).apply(t, namespace)
	cluster.Kubectl(t, "-n", namespace, "apply", "-f", "../../../config/overlays/hpa/hpa.yaml")
	// Two pods are the minimum. About thirty concurrent requests are more than
	// two pods should have.
	load := cluster.StartLoad(t, address(t, namespace), "", slices.Concat(cluster.Kinds(), cluster.Kinds())...)
	cluster.Eventually(t, func() error {
		if n := len(cluster.Pods(t, namespace)); n < 3 {
			return fmt.Errorf("%d pods: %s", n, cluster.Kubectl(t, "-n", namespace, "describe", "hpa"))
		}
		return nil
	})
	rolledOut(t, namespace)
	load.StopComplete(t)
}
