package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/queuegate/queuegate/test/cluster"
)

// longRequest is longer than the quiet period of the drain.
const longRequest = 20 * time.Second

func TestADeletedPodFinishesRequestsAndClosesWebSockets(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			base(t, one, form.change).apply(t, namespace)
			pod := cluster.Pods(t, namespace)[0]
			address := pod.Status.PodIP + ":8012"
			tunnel, err := openWebSocket(address)
			if err != nil {
				t.Fatal(err)
			}
			defer tunnel.conn.Close()
			if err := tunnel.send("before"); err != nil {
				t.Fatal(err)
			}
			if _, echo, err := tunnel.receive(cluster.WaitTimeout); err != nil || string(echo) != "before" {
				t.Fatalf("echo %q, %v", echo, err)
			}
			result := make(chan error, 1)
			go func() {
				response, err := http.Get(fmt.Sprintf("http://%s/delay?ms=%d", address, longRequest.Milliseconds()))
				if err == nil {
					err = cluster.Check(response, "")
				}
				result <- err
			}()
			// Wait until the request and the WebSocket are in progress.
			cluster.Eventually(t, func() error {
				if n := gauge(t, pod, "queuegate_in_flight_requests"); n != 2 {
					return fmt.Errorf("%v in flight", n)
				}
				return nil
			})
			began := time.Now()
			cluster.Kubectl(t, "-n", namespace, "delete", "pod", pod.Name, "--wait=false")

			if err := tunnel.closed(cluster.WaitTimeout); err != nil {
				t.Error("WebSocket:", err)
			}
			t.Logf("close frame after %.1f s", time.Since(began).Seconds())
			tunnel.conn.Close()
			if err := <-result; err != nil {
				t.Error("request in progress:", err)
			}
			t.Logf("request complete after %.1f s", time.Since(began).Seconds())
			cluster.Eventually(t, func() error {
				if exec.Command("kubectl", "-n", namespace, "get", "pod", pod.Name).Run() == nil {
					return fmt.Errorf("pod %s is still there", pod.Name)
				}
				return nil
			})
			took := time.Since(began)
			t.Logf("pod gone after %.1f s", took.Seconds())
			if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; took > grace/2 {
				t.Errorf("took %v of %v: it was probably killed", took, grace)
			}
			// The kubelet writes this event if the hook failed.
			if events := eventsOf(t, namespace, "FailedPreStopHook"); len(events) > 0 {
				t.Errorf("events of preStop: %v", events)
			}
		})
	}
}

// eventsOf returns the messages of events with this reason.
func eventsOf(t *testing.T, namespace, reason string) []string {
	t.Helper()
	var list corev1.EventList
	cluster.Decode(t, cluster.Kubectl(t, "-n", namespace, "get", "events", "-o", "json", "--field-selector", "reason="+reason), &list)
	var messages []string
	for _, e := range list.Items {
		messages = append(messages, e.Message)
	}
	return messages
}

// page returns a pod's metrics page.
func page(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	response, err := http.Get("http://" + pod.Status.PodIP + ":9091/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// gauge returns the value of a series without labels.
func gauge(t *testing.T, pod corev1.Pod, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page(t, pod)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no series %s", name)
	return 0
}
