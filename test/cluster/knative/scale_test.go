package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestAServiceScalesFromZeroToManyAndBackByTheGatesStats(t *testing.T) {
	cluster.UseSidecar(t, "queuegate")
	s := service{namespace: cluster.Namespace(t), name: "scale"}
	s.apply(t, 1, map[string]string{"autoscaling.knative.dev/target": "2", "autoscaling.knative.dev/max-scale": "6"})
	s.scaled(t, func(n int) bool { return n == 0 })
	load := cluster.StartLoad(t, ingress, s.host(), cluster.Kinds()...)
	s.scaled(t, func(n int) bool { return n >= 1 })
	many := s.scaled(t, func(n int) bool { return n >= 4 })
	load.Await(t, 1000)
	load.StopComplete(t)
	t.Logf("%d pods under load", many)
	s.scaled(t, func(n int) bool { return n == 0 })
}
