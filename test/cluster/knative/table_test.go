package knative

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/cluster"
)

const (
	coldStarts = 10
	// The CPU time per request is an average. Each sidecar gets 20,000 requests, in four
	// batches of 5,000. In each batch eight clients send concurrently.
	requests, clients, rounds = 20_000, 8, 4
	rollOuts                  = 2
)

// figures are the measurements of one sidecar.
type figures struct {
	coldStart      []time.Duration // time to the first response after zero pods
	idle, loaded   int64           // resident bytes before and after the requests
	cpu            time.Duration   // per request
	complete, lost int             // requests in roll-outs
}

// measured is a Knative Service and the measurements of its sidecar. The sidecar is
// either queue-proxy or the gate.
type measured struct {
	service
	figures
	sidecar string
}

// The test runs two services, one with queue-proxy and one with the gate. It measures
// them alternately, so that other load on the machine affects both equally. Knative
// itself gives all pods the same sidecar, here queue-proxy. In the pods of one service,
// the policy of canary.yaml replaces queue-proxy by the gate.
func TestTheTableComparesTheGateWithQueueProxy(t *testing.T) {
	cluster.UseSidecar(t, "queue")
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "apply", "-f", "../../../config/knative/canary.yaml")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "-f", "../../../config/knative/canary.yaml") })
	inEffect(t, namespace)
	theirs := &measured{service: service{namespace: namespace, name: "theirs"}, sidecar: "queue-proxy"}
	ours := &measured{service: service{namespace: namespace, name: "ours", labels: "{queuegate: canary}"}, sidecar: "queuegate"}
	candidates := []*measured{theirs, ours}

	for _, m := range candidates {
		m.apply(t, 1, nil)
	}
	for range coldStarts {
		for _, m := range candidates {
			m.startCold(t)
		}
		slices.Reverse(candidates)
	}
	for _, m := range candidates {
		m.apply(t, 2, map[string]string{"autoscaling.knative.dev/min-scale": "1"})
		m.scaled(t, func(n int) bool { return n == 1 })
		m.idle = cluster.ResidentMemory(t, m.process(t))
	}
	for range rounds {
		for _, m := range candidates {
			m.sendRequests(t, requests/rounds)
		}
		slices.Reverse(candidates)
	}
	for _, m := range candidates {
		m.loaded = cluster.ResidentMemory(t, m.process(t))
		m.rollOut(t)
	}
	if t.Failed() {
		return
	}

	var table strings.Builder
	row := func(name, format string, value func(*measured) any) {
		fmt.Fprintf(&table, "| %s | "+format+" | "+format+" |\n", name, value(theirs), value(ours))
	}
	fmt.Fprintf(&table, "| in a real pod | queue-proxy | queuegate |\n|---|---|---|\n")
	row(fmt.Sprintf("cold start: first response of a service at zero, median of %d", coldStarts), "%.2f s", func(m *measured) any { return slices.Sorted(slices.Values(m.coldStart))[coldStarts/2].Seconds() })
	row("the same, slowest", "%.2f s", func(m *measured) any { return slices.Max(m.coldStart).Seconds() })
	row("memory, idle", "%.1f MiB", func(m *measured) any { return float64(m.idle) / (1 << 20) })
	row(fmt.Sprintf("memory after %d requests by %d clients", requests, clients), "%.1f MiB", func(m *measured) any { return float64(m.loaded) / (1 << 20) })
	row("CPU per request", "%d µs", func(m *measured) any { return (m.cpu / requests).Microseconds() })
	row(fmt.Sprintf("requests lost in %d roll-outs under load", rollOuts), "%s", func(m *measured) any { return fmt.Sprintf("%d of %d", m.lost, m.complete+m.lost) })
	t.Logf("\n%s", table.String())
	if ours.lost > 0 {
		t.Errorf("lost %d requests", ours.lost)
	}
	if err := cluster.Rewrite("../../../docs/knative.md", "beside queue-proxy", table.String()); err != nil {
		t.Error(err)
	}
}

// inEffect waits until the API server applies the policy.
func inEffect(t *testing.T, namespace string) {
	t.Helper()
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try", "labels": {"queuegate": "canary"}}, "spec": {
		"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [{"name": "queue-proxy", "image": "none",
		"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`
	cluster.Eventually(t, func() error {
		image := cluster.KubectlWith(t, pod, "-n", namespace, "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.containers[0].image}")
		if image != "registry.example/queuegate:dev" {
			return fmt.Errorf("image %s", image)
		}
		return nil
	})
}

// process returns the process id of the sidecar in the only pod.
func (m *measured) process(t *testing.T) int {
	t.Helper()
	return cluster.ProcessOf(t, m.pods(t)[0], "queue")
}

func (m *measured) startCold(t *testing.T) {
	t.Helper()
	m.idles(t)
	began := time.Now()
	if err := get(http.DefaultClient, ingress, m.host()); err != nil {
		t.Fatalf("%s: cold start: %v", m.sidecar, err)
	}
	took := time.Since(began)
	m.coldStart = append(m.coldStart, took)
	t.Logf("%s: cold start: %.2f s", m.sidecar, took.Seconds())
}

// sendRequests sends n requests to the pod, and adds up the sidecar's CPU time.
func (m *measured) sendRequests(t *testing.T, n int) {
	t.Helper()
	address, process := m.pods(t)[0].Status.PodIP+":8012", m.process(t)
	before := cluster.CPUTime(t, process)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range n / clients {
				if err := get(client, address, m.host()); err != nil {
					t.Errorf("%s: %v", m.sidecar, err)
					return
				}
			}
		})
	}
	group.Wait()
	m.cpu += cluster.CPUTime(t, process) - before
}

func (m *measured) rollOut(t *testing.T) {
	t.Helper()
	load := cluster.StartLoad(t, ingress, m.host(), cluster.Kinds()...)
	for i := range rollOuts {
		m.apply(t, 3+i, map[string]string{"autoscaling.knative.dev/min-scale": "2"})
		m.scaled(t, func(n int) bool { return n == 2 })
	}
	t.Log(m.sidecar, "in roll-outs:")
	m.complete, m.lost = load.Stop(t)
}

func get(client *http.Client, address, host string) error {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return err
}
