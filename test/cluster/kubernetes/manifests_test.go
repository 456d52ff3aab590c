package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/queuegate/queuegate/test/cluster"
)

const configDirectory = "../../../config/kubernetes"

// manifests are the objects of config/kubernetes. Tests change only the Deployment.
type manifests struct {
	deployment   *appsv1.Deployment
	otherObjects []string
}

func base(t *testing.T, changes ...func(*appsv1.Deployment)) *manifests {
	t.Helper()
	m := new(manifests)
	for _, document := range strings.Split(cluster.Kubectl(t, "kustomize", configDirectory), "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "Deployment" {
			m.otherObjects = append(m.otherObjects, document)
			continue
		}
		m.deployment = new(appsv1.Deployment)
		if err := yaml.UnmarshalStrict([]byte(document), m.deployment); err != nil {
			t.Fatal(err)
		}
	}
	if m.deployment == nil {
		t.Fatal("no Deployment")
	}
	for _, change := range append(changes, slowNode) {
		change(m.deployment)
	}
	return m
}

// slowNode relaxes the Deployment's time limits, because other load can delay the node by
// more than 10 s. test/render checks the limits in the files.
func slowNode(d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	g := gate(spec)
	for _, p := range []*corev1.Probe{g.StartupProbe, g.LivenessProbe, g.ReadinessProbe} {
		if p != nil { // the startup probe is nil after plainForm
			p.TimeoutSeconds, p.FailureThreshold = 30, 600
		}
	}
	hook := application(spec).Lifecycle.PreStop.HTTPGet
	hook.Path = strings.Replace(hook.Path, "begins-within=10s", "begins-within=1m", 1)
}

// plainForm makes the gate an ordinary container instead of a native sidecar, as in
// Knative's pods and before Kubernetes 1.29.
func plainForm(d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	sidecar := spec.InitContainers[0]
	sidecar.RestartPolicy, sidecar.StartupProbe = nil, nil
	spec.InitContainers, spec.Containers = nil, append(spec.Containers, sidecar)
}

// gate returns the gate's container, ordinary or native sidecar.
func gate(spec *corev1.PodSpec) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if list[i].Name == "queuegate" {
				return &list[i]
			}
		}
	}
	panic("no container queuegate")
}

// apply applies the manifests, and waits until all pods are ready.
func (m *manifests) apply(t *testing.T, namespace string) {
	t.Helper()
	document, err := json.Marshal(m.deployment)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(append(m.otherObjects, string(document)), "\n---\n")
	cluster.KubectlWith(t, all, "-n", namespace, "apply", "-f", "-")
	rolledOut(t, namespace)
}

func rolledOut(t *testing.T, namespace string) {
	t.Helper()
	cluster.Kubectl(t, "-n", namespace, "rollout", "status", "deployment", "web", fmt.Sprintf("--timeout=%v", cluster.WaitTimeout))
}

// address returns the address of the Service.
func address(t *testing.T, namespace string) string {
	t.Helper()
	return cluster.Kubectl(t, "-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
