package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/queuegate/queuegate/test/cluster"
)

// The test rewrites the application's probes as a service mesh does.
func TestTheKubeletsEventsShowWhyARewrittenProbeFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, probe, event string }{
		{"the application responds with 503", `{"httpGet": {"path": "/status/503", "port": 8080}}`, "HTTP probe failed with statuscode: 503"},
		{"nothing listens", `{"httpGet": {"path": "/", "port": 8099}}`, "HTTP probe failed with statuscode: 502"},
		{"no response in time", `{"httpGet": {"path": "/delay?ms=30000", "port": 8080}}`, "HTTP probe failed with statuscode: 504"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			base(t, one, func(d *appsv1.Deployment) {
				rewrite(&d.Spec.Template.Spec, c.probe)
			}).apply(t, namespace)
			cluster.Eventually(t, func() error {
				events := eventsOf(t, namespace, "Unhealthy")
				if !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "Liveness probe failed: "+c.event) }) {
					return fmt.Errorf("events %q, want %s", events, c.event)
				}
				return nil
			})
		})
	}
}

func TestARewrittenProbeOfAHealthyApplicationSucceeds(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, func(d *appsv1.Deployment) {
		rewrite(&d.Spec.Template.Spec, `{"httpGet": {"path": "/healthz", "port": 8080}}`)
		// Use the rewritten probe as the startup probe too. Then the pod becomes ready
		// only after the kubelet's rewritten probe has succeeded.
		web := application(&d.Spec.Template.Spec)
		web.StartupProbe = web.LivenessProbe.DeepCopy()
		web.StartupProbe.FailureThreshold = 600
		web.StartupProbe.TimeoutSeconds, web.LivenessProbe.TimeoutSeconds = 60, 60 // a slow response is also healthy
	}).apply(t, namespace)
	if events := eventsOf(t, namespace, "Unhealthy"); slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "Liveness") }) {
		t.Errorf("events %q", events)
	}
}

// rewrite points the application's liveness probe at the gate.
func rewrite(spec *corev1.PodSpec, probe string) {
	path := "/app-health/web/livez"
	g := gate(spec)
	g.Env = append(g.Env, corev1.EnvVar{Name: "KUBE_APP_PROBERS", Value: fmt.Sprintf(`{%q: %s}`, path, probe)})
	application(spec).LivenessProbe = &corev1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 3, FailureThreshold: 1000,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8022)}},
	}
}
