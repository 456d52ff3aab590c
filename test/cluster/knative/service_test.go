package knative

import (
	"cmp"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/queuegate/queuegate/test/cluster"
)

// ingress is the ingress for requests from outside.
const ingress = cluster.NodeAddress + ":80"

// A service is a Knative Service of the demo container.
type service struct {
	namespace, name string
	labels          string // labels of the pods in YAML; "" = none
}

func (s service) host() string { return s.name + "." + s.namespace + ".example.com" }

// apply creates or changes the service, and waits until it is ready.
func (s service) apply(t *testing.T, generation int, annotations map[string]string) {
	t.Helper()
	var lines strings.Builder
	for name, value := range annotations {
		fmt.Fprintf(&lines, "        %s: %q\n", name, value)
	}
	document := fmt.Sprintf(`apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: %s, namespace: %s}
spec:
  template:
    metadata:
      labels: %s
      annotations:
        autoscaling.knative.dev/window: 6s
        features.knative.dev/http-full-duplex: Enabled # of the activator
%s    spec:
      containerConcurrency: 10
      containers:
        - image: %s/demo:%s
          env: [{name: GENERATION, value: "%d"}]
          readinessProbe: {httpGet: {path: /healthz}}
          resources: {requests: {cpu: 10m, memory: 10Mi}}
`, s.name, s.namespace, cmp.Or(s.labels, "{}"), lines.String(), cluster.KnativeRegistry, cluster.KnativeTag, generation)
	cluster.Eventually(t, func() error { // Knative's webhook may not be ready yet
		apply := exec.Command("kubectl", "apply", "-f", "-")
		apply.Stdin = strings.NewReader(document)
		if out, err := apply.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	s.ready(t)
}

// ready waits until the newest revision serves requests.
func (s service) ready(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, func() error {
		var object struct {
			Metadata struct{ Generation int }
			Status   struct {
				ObservedGeneration                                 int
				LatestCreatedRevisionName, LatestReadyRevisionName string
				Conditions                                         []struct{ Type, Status, Reason, Message string }
			}
		}
		cluster.Decode(t, cluster.Kubectl(t, "-n", s.namespace, "get", "ksvc", s.name, "-o", "json"), &object)
		if object.Status.ObservedGeneration != object.Metadata.Generation || object.Status.LatestCreatedRevisionName != object.Status.LatestReadyRevisionName {
			return fmt.Errorf("not yet: %+v", object)
		}
		for _, c := range object.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("not ready: %+v", object.Status.Conditions)
	})
}

// pods returns the service's pods, including terminating ones.
func (s service) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	cluster.Decode(t, cluster.Kubectl(t, "-n", s.namespace, "get", "pods", "-l", "serving.knative.dev/service="+s.name, "-o", "json"), &list)
	return list.Items
}

// scaled counts the service's pods repeatedly, until the given function returns true for
// their number. It returns the highest number that it has counted.
func (s service) scaled(t *testing.T, enough func(n int) bool) (most int) {
	t.Helper()
	cluster.Eventually(t, func() error {
		n := len(s.pods(t))
		most = max(most, n)
		if !enough(n) {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	return most
}

// idles waits until all pods are gone or terminating.
func (s service) idles(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, func() error {
		for _, p := range s.pods(t) {
			if p.DeletionTimestamp == nil {
				return fmt.Errorf("pod %s", p.Name)
			}
		}
		return nil
	})
}
