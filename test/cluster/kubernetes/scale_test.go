package kubernetes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The node's adapter reads the gates' metrics pages directly, without Prometheus.
func TestAHorizontalPodAutoscalerScalesByTheGatesMetrics(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one).apply(t, namespace)
	cluster.Kubectl(t, "-n", namespace, "apply", "-f", "../../../config/overlays/hpa/hpa.yaml")
	// The load keeps about thirty requests in flight. The autoscaler allows seven per pod
	// (hpa.yaml), so the minimum of two pods is not enough.
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
