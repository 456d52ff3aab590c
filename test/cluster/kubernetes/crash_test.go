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
	cluster.WaitEnded(process) // its sockets are open until then
	began := time.Now()
	answer, err := http.Get("http://" + pod.Status.PodIP + ":8012/echo")
	if err == nil {
		err = cluster.Check(answer, "")
	}
	if err != nil {
		t.Error("the request after the crash:", err)
	}
	t.Logf("complete %.1f s after the crash", time.Since(began).Seconds())
	restartedOnce(t, namespace, "Error")
}

func TestAfterAnOOMKillTheGateAnswers502ThenWaitsForTheRestart(t *testing.T) {
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
	answer, err := http.Get("http://" + pod.Status.PodIP + ":8012/memory")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadGateway {
		t.Errorf("the request that took the memory: %s", answer.Status)
	}
	cluster.WaitEnded(process) // it may accept connections until then
	answer, err = http.Get("http://" + pod.Status.PodIP + ":8012/")
	if err == nil {
		err = cluster.Check(answer, "well\n")
	}
	if err != nil {
		t.Error("the request after it:", err)
	}
	restartedOnce(t, namespace, "OOMKilled")
}

// one asks for a single pod.
func one(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) }

// patient has the gate hold requests for as long as a restart can take on a
// machine that is busy.
func patient(d *appsv1.Deployment) {
	g := gate(&d.Spec.Template.Spec)
	g.Env = append(g.Env, corev1.EnvVar{Name: "UPSTREAM_RESTART_WAIT", Value: "4m"})
}

// application returns the container beside the gate.
func application(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name != "queuegate" {
			return &spec.Containers[i]
		}
	}
	panic("no application")
}

// restartedOnce waits until the pod is ready again, its application restarted
// once, for that reason, and the gate not at all.
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
