package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/queuegate/queuegate/test/cluster"
)

const config = "../../../config/"

// The test checks three files. With scrape.yaml, Prometheus reads the gates' metrics
// pages. With adapter.yaml, the adapter offers these metrics in the API for custom
// metrics. With hpa.yaml, the autoscaler computes the number of pods from them.
func TestAHorizontalPodAutoscalerScalesByPrometheusAndItsAdapter(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "-n", namespace, "apply", "-k", config+"overlays/hpa")
	cluster.Kubectl(t, "-n", namespace, "rollout", "status", "deployment", "web", fmt.Sprintf("--timeout=%v", cluster.WaitTimeout))
	address := cluster.Kubectl(t, "-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	discover(t, namespace)
	// The load keeps about thirty requests in flight. The autoscaler allows seven per pod
	// (hpa.yaml), so the minimum of two pods is not enough.
	load := cluster.StartLoad(t, address, "", slices.Concat(cluster.Kinds(), cluster.Kinds())...)
	cluster.Eventually(t, func() error {
		if n := len(cluster.Pods(t, namespace)); n < 3 {
			return fmt.Errorf("%d pods: %s", n, cluster.Kubectl(t, "-n", namespace, "describe", "hpa"))
		}
		return nil
	})
	cluster.Kubectl(t, "-n", namespace, "rollout", "status", "deployment", "web", fmt.Sprintf("--timeout=%v", cluster.WaitTimeout))
	load.StopComplete(t)

	for _, metric := range []string{"queuegate_in_flight_requests", "kn_serving_queue_depth"} {
		var list struct {
			Items []struct {
				DescribedObject corev1.ObjectReference
				Value           string
			}
		}
		path := "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + namespace + "/pods/*/" + metric
		cluster.Decode(t, cluster.Kubectl(t, "get", "--raw", path), &list)
		if len(list.Items) < 2 {
			t.Errorf("%s: %+v", path, list)
		}
		t.Logf("%s: %+v", metric, list.Items)
	}
	// KEDA's query also has results.
	var object struct {
		Spec struct {
			Triggers []struct{ Metadata struct{ Query string } }
		}
	}
	content, err := os.ReadFile(config + "overlays/keda/scaledobject.yaml")
	if err == nil {
		err = yaml.Unmarshal(content, &object)
	}
	if err != nil || len(object.Spec.Triggers) != 1 {
		t.Fatalf("scaledobject.yaml: %+v, %v", object, err)
	}
	query := strings.ReplaceAll(object.Spec.Triggers[0].Metadata.Query, `namespace="default"`, fmt.Sprintf("namespace=%q", namespace))
	if n := ask(t, query); n != 1 {
		t.Errorf("%s: %d results", query, n)
	}
}

// discover writes the addresses and ports of a namespace's pods to Prometheus' target
// file, every second until the test ends. Each target has the labels that Prometheus
// would set with kubernetes_sd_configs (role pod).
func discover(t *testing.T, namespace string) {
	t.Helper()
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	write := func() error {
		out, err := exec.Command("kubectl", "-n", namespace, "get", "pods", "-o", "json").Output()
		if err != nil {
			return err
		}
		var list corev1.PodList
		if err := json.Unmarshal(out, &list); err != nil {
			return err
		}
		targets := []target{}
		for _, pod := range list.Items {
			for _, container := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
				for _, port := range container.Ports {
					if pod.Status.PodIP == "" {
						continue
					}
					labels := map[string]string{
						"namespace": pod.Namespace, "pod_name": pod.Name, "pod_phase": string(pod.Status.Phase), "pod_container_port_name": port.Name,
					}
					for name, value := range pod.Labels {
						labels["pod_label_"+strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(name)] = value
					}
					meta := map[string]string{}
					for name, value := range labels {
						meta["__meta_kubernetes_"+name] = value
					}
					targets = append(targets, target{[]string{fmt.Sprintf("%s:%d", pod.Status.PodIP, port.ContainerPort)}, meta})
				}
			}
		}
		content, err := json.Marshal(targets)
		if err != nil {
			return err
		}
		part := cluster.TargetsFile() + ".part"
		if err := os.WriteFile(part, content, 0o644); err != nil {
			return err
		}
		return os.Rename(part, cluster.TargetsFile())
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Second):
			}
			if err := write(); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { close(end); <-done })
}

// ask returns the number of results of a query.
func ask(t *testing.T, query string) int {
	t.Helper()
	response, err := http.Get("http://" + cluster.PrometheusAddress + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var result struct {
		Data struct{ Result []any }
	}
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		t.Fatal(err)
	}
	return len(result.Data.Result)
}
