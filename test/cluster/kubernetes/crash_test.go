package kubernetes

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestAfterACrashOfTheApplicationRequestsWaitForItsRestart(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, patient).apply(t, namespace)
	pod := cluster.Pods(t, namespace)[0]
	process := cluster.ProcessOf(t, pod, "demo")
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cluster.WaitEnded(process) // the sockets of the process stay open until it has exited
	began := time.Now()
	response, err := http.Get("http://" + pod.Status.PodIP + ":8012/echo")
	if err == nil {
		err = cluster.Check(response, "")
	}
	if err != nil {
		t.Error("the request after the crash:", err)
	}
	t.Logf("complete %.1f s after the crash", time.Since(began).Seconds())
	restartedOnce(t, namespace, "Error")
}

func TestAfterAnOOMKillTheGateSends502AndQueuesRequestsUntilTheRestart(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, patient, func(d *appsv1.Deployment) {
		web := application(&d.Spec.Template.Spec)
		web.Image = "registry.example/hungry:dev"
		web.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
		web.Resources.Requests = web.Resources.Limits
	}).apply(t, namespace)
	pod := cluster.Pods(t, namespace)[0]
	process := cluster.ProcessOf(t, pod, "hungry")
	response, err := http.Get("http://" + pod.Status.PodIP + ":8012/memory")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("the request that used the memory: %s", response.Status)
	}
	cluster.WaitEnded(process) // the process listens until it has exited
	response, err = http.Get("http://" + pod.Status.PodIP + ":8012/")
	if err == nil {
		err = cluster.Check(response, "well\n")
	}
	if err != nil {
		t.Error("the next request:", err)
	}
	restartedOnce(t, namespace, "OOMKilled")
}

func one(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) }

// patient makes the gate queue requests for up to four minutes while the application
// restarts. A single restart takes less time, even on a busy machine.
func patient(d *appsv1.Deployment) {
	g := gate(&d.Spec.Template.Spec)
	g.Env = append(g.Env, corev1.EnvVar{Name: "UPSTREAM_RESTART_WAIT", Value: "4m"})
}

func application(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name != "queuegate" {
			return &spec.Containers[i]
		}
	}
	panic("no application")
}

// restartedOnce waits until all containers are ready and the application has restarted
// exactly once, for the given reason. It fails the test if the gate has restarted.
func restartedOnce(t *testing.T, namespace, reason string) {
	t.Helper()
	cluster.Eventually(t, func() error {
		status := cluster.Pods(t, namespace)[0].Status
		for _, s := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
			last := s.LastTerminationState.Terminated
			switch {
			case !s.Ready:
				return fmt.Errorf("%s is not ready", s.Name)
			case s.Name == "queuegate" && s.RestartCount != 0:
				t.Fatalf("the gate restarted: %+v", last)
			case s.Name != "queuegate" && (s.RestartCount != 1 || last == nil || last.Reason != reason):
				return fmt.Errorf("%s: %d restarts, the last for %+v; want %s", s.Name, s.RestartCount, last, reason)
			}
		}
		return nil
	})
}
