package kubernetes

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/queuegate/queuegate/test/cluster"
)

func limits(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

func TestWithATenthOfACPUTheGateServesAndStaysReady(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, func(d *appsv1.Deployment) {
		gate(&d.Spec.Template.Spec).Resources = limits("100m", "64Mi")
	}).apply(t, namespace)
	load := cluster.StartLoad(t, address(t, namespace), "", cluster.Kinds()...)
	load.Await(t, 3000)
	load.StopComplete(t)
	if events := eventsOf(t, namespace, "Killing"); len(events) > 0 {
		t.Errorf("events %q", events)
	}
	if restarts := cluster.Pods(t, namespace)[0].Status.InitContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("the gate restarted %d times", restarts)
	}
}

func TestAResizeInPlaceUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, func(d *appsv1.Deployment) {
		gate(&d.Spec.Template.Spec).Resources = limits("100m", "48Mi")
	}).apply(t, namespace)
	pod := cluster.Pods(t, namespace)[0].Name
	load := cluster.StartLoad(t, address(t, namespace), "", cluster.Kinds()...)
	for _, to := range []struct{ cpu, memory string }{{"500m", "96Mi"}, {"200m", "64Mi"}} {
		patch := fmt.Sprintf(`{"spec": {"initContainers": [{"name": "queuegate", "resources": {"requests": {"cpu": %[1]q, "memory": %[2]q}, "limits": {"cpu": %[1]q, "memory": %[2]q}}}]}}`, to.cpu, to.memory)
		cluster.Kubectl(t, "-n", namespace, "patch", "pod", pod, "--subresource=resize", "--type=strategic", "--patch", patch)
		cluster.Eventually(t, func() error {
			status := cluster.Pods(t, namespace)[0].Status.InitContainerStatuses[0]
			if status.RestartCount != 0 {
				t.Fatal("the gate restarted")
			}
			want := limits(to.cpu, to.memory).Limits
			if r := status.Resources; r == nil || !r.Limits.Cpu().Equal(*want.Cpu()) || !r.Limits.Memory().Equal(*want.Memory()) {
				return fmt.Errorf("resources %v, want %v", r, want)
			}
			return nil
		})
		load.Await(t, 500)
	}
	load.StopComplete(t)
}
