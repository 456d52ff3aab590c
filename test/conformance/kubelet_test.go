package conformance

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	grpcprobe "k8s.io/kubernetes/pkg/probe/grpc"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"
)

// podIP is the address of the containers and of the gate.
const podIP = "127.0.0.1"

// askKubelet probes and decides as k8s.io/kubernetes/pkg/kubelet/prober does: Success and
// Warning are ready. message is the text of the event.
func askKubelet(t *testing.T, handler v1.ProbeHandler, timeout time.Duration) (ready bool, message string) {
	t.Helper()
	var result probe.Result
	var err error
	switch {
	case handler.HTTPGet != nil:
		request, err2 := httpprobe.NewRequestForHTTPGetAction(handler.HTTPGet, &v1.Container{}, podIP, "probe")
		if err2 != nil {
			t.Fatal(err2)
		}
		result, message, err = httpprobe.New(false).Probe(request, timeout)
	case handler.TCPSocket != nil:
		host := handler.TCPSocket.Host
		if host == "" {
			host = podIP
		}
		result, message, err = tcpprobe.New().Probe(host, handler.TCPSocket.Port.IntValue(), timeout)
	case handler.GRPC != nil:
		service := ""
		if handler.GRPC.Service != nil {
			service = *handler.GRPC.Service
		}
		result, message, err = grpcprobe.New().Probe(podIP, service, int(handler.GRPC.Port), timeout)
	default:
		t.Fatal("a probe without a handler")
	}
	if err != nil {
		return false, err.Error()
	}
	return result == probe.Success || result == probe.Warning, message
}

// queueProbe is the readiness probe of the gate's container in Knative.
func queueProbe(port int) v1.ProbeHandler {
	return get(port, "/", v1.HTTPHeader{Name: "K-Network-Probe", Value: "queue"})
}
