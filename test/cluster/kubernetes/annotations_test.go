package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/queuegate/queuegate/test/cluster"
)

// podinfo mounts the pod's annotations into the gate, as Knative's setting
// queueproxy.mount-podinfo does.
func podinfo(d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "podinfo", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}}}})
	g := gate(spec)
	g.VolumeMounts = append(g.VolumeMounts, corev1.VolumeMount{Name: "podinfo", MountPath: "/etc/podinfo", ReadOnly: true})
}

func TestChangesOfSettingsByAnnotationsUnderLoadLoseNoRequest(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	base(t, one, podinfo).apply(t, namespace)
	pod := cluster.Pods(t, namespace)[0]
	load := cluster.StartLoad(t, address(t, namespace), "", cluster.Kinds()...)

	annotate := func(value string) (changed time.Time) {
		cluster.Kubectl(t, "-n", namespace, "annotate", "--overwrite", "pod", pod.Name, "queuegate.dev/concurrency="+value)
		return time.Now()
	}
	limit := func() float64 { return gauge(t, pod, "queuegate_concurrency_limit") }
	generation := func() float64 { return gauge(t, pod, "queuegate_settings_generation") }
	for i, value := range []int{12, 4, 64, 8} {
		changed := annotate(fmt.Sprint(value))
		cluster.Eventually(t, func() error {
			if l, g := limit(), generation(); l != float64(value) || g != float64(i+1) {
				return fmt.Errorf("limit %v and generation %v, want %d and %d", l, g, value, i+1)
			}
			return nil
		})
		t.Logf("limit %d in force %v after the annotation", value, time.Since(changed).Round(time.Millisecond))
		load.Await(t, 4000)
	}

	annotate("many")
	cluster.Eventually(t, func() error {
		if page := page(t, pod); !strings.Contains(page, `queuegate_settings_error{error="`) || !strings.Contains(page, "many") {
			return fmt.Errorf("no queuegate_settings_error with the value")
		}
		return nil
	})
	if l, g := limit(), generation(); l != 8 || g != 4 {
		t.Errorf("limit %v and generation %v after an invalid value, want 8 and 4 as before", l, g)
	}
	load.Await(t, 4000)
	annotate("16")
	cluster.Eventually(t, func() error {
		if l := limit(); l != 16 || strings.Contains(page(t, pod), "queuegate_settings_error{") {
			return fmt.Errorf("limit %v, want 16 without an error", l)
		}
		return nil
	})
	load.StopComplete(t)
}
