package conformance

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// These tests probe the gate with the kubelet's own packages. They also compare the
// messages that the kubelet would write into its events.

const (
	unavailable   = "HTTP probe failed with statuscode: 503"
	badRequest    = "HTTP probe failed with statuscode: 400"
	kubeletWaits  = time.Second // the kubelet's default of timeoutSeconds
	tcpProbeOfAny = `SERVING_READINESS_PROBE={"tcpSocket":{"port":%d},"successThreshold":1}`
)

// checkKubelet sends a probe with the kubelet's code. It fails the test unless the
// kubelet makes the wanted decision with the wanted message. The failure's message starts
// with the text in the parameter description.
func checkKubelet(t *testing.T, description string, handler v1.ProbeHandler, wantReady bool, wantMessage string) {
	t.Helper()
	ready, message := askKubelet(t, handler, testTimeout)
	if ready != wantReady || message != wantMessage {
		t.Errorf("%s: the kubelet decides ready=%v with %q, want ready=%v with %q", description, ready, message, wantReady, wantMessage)
	}
}

func TestTheKubeletSeesTheContainerBecomeReadyStopAndRestart(t *testing.T) {
	port := launch.FreePort(t) // no other process takes it while nothing listens on it
	l, err := net.Listen("tcp", podAddress(port))
	if err != nil {
		t.Fatal(err)
	}
	g := startGate(t, port, fmt.Sprintf(tcpProbeOfAny, port))
	becomes := func(wantReady bool, wantMessage string) {
		t.Helper()
		var ready bool
		var message string
		eventually(t, fmt.Sprintf("the kubelet decides ready=%v with %q", wantReady, wantMessage), func() bool {
			ready, message = askKubelet(t, queueProbe(g.port), testTimeout)
			return ready == wantReady && message == wantMessage
		})
	}
	becomes(true, "queue")
	_ = l.Close()
	becomes(false, unavailable)
	if l, err = net.Listen("tcp", podAddress(port)); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	becomes(true, "queue")
}

// The gate delays its response until the container is ready, but responds before the
// kubelet's timeout. After the timeout the event would say "context deadline exceeded".
func TestKubeletWithItsDefaultTimeoutGetsAStatusWhileTheContainerIsDown(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbeOfAny, port))
	eventually(t, "the event says 503", func() bool {
		ready, message := askKubelet(t, queueProbe(g.port), kubeletWaits)
		if ready {
			t.Fatalf("ready although nothing listens behind the gate: %s", message)
		}
		return message == unavailable
	})
}

func TestTheKubeletsProbeNeedsKnativesHeader(t *testing.T) {
	g := startGate(t, launch.FreePort(t))
	checkKubelet(t, "without the header", get(g.port, "/"), false, badRequest)
	checkKubelet(t, "with another value", get(g.port, "/", v1.HTTPHeader{Name: "K-Network-Probe", Value: "probe"}), false, badRequest)
	for _, path := range []string{"", "/", "/healthz", "/any/where?x=1"} {
		checkKubelet(t, "with path "+path, get(g.port, path, v1.HTTPHeader{Name: "k-network-probe", Value: "queue"},
			v1.HTTPHeader{Name: "Host", Value: "service.example"}), true, "queue")
	}
}

func TestTheKubeletSeesTheGateAliveInEveryStateOfTheContainer(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbeOfAny, port), "DRAIN_QUIET_SECONDS=60")
	checkKubelet(t, "alive", get(g.admin, "/health/alive"), true, "Service is alive")
	checkKubelet(t, "ready", get(g.admin, "/health/ready"), false, unavailable)
	checkKubelet(t, "healthz", get(g.admin, "/healthz"), false, unavailable)
	checkKubelet(t, "TCP", tcp(g.port), true, "")

	l, err := net.Listen("tcp", podAddress(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eventually(t, "ready on the admin port", func() bool {
		ready, message := askKubelet(t, get(g.admin, "/health/ready"), testTimeout)
		return ready && message == "Service is ready"
	})
	checkKubelet(t, "healthz", get(g.admin, "/healthz"), true, "Service is ready")

	g.drain()
	eventually(t, "not ready once the drain has begun", func() bool {
		ready, message := askKubelet(t, get(g.admin, "/health/ready"), testTimeout)
		return !ready && message == unavailable
	})
	checkKubelet(t, "alive", get(g.admin, "/health/alive"), true, "Service is alive")
	checkKubelet(t, "TCP", tcp(g.port), true, "")
}

func TestTheKubeletSeesADrainImmediatelyWhileRequestsAreServed(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	finish := sync.OnceFunc(func() { close(goOn) })
	defer finish()
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		_, _ = io.WriteString(w, "served")
	}))
	g := startGate(t, port, fmt.Sprintf(tcpProbeOfAny, port), "DRAIN_QUIET_SECONDS=60")
	eventually(t, "ready", func() bool {
		ready, _ := askKubelet(t, queueProbe(g.port), testTimeout)
		return ready
	})
	served := make(chan string, 1)
	go func() {
		response, err := http.Get(g.url("/"))
		if err != nil {
			served <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		served <- string(body)
	}()
	<-began
	g.drain()
	eventually(t, "not ready once the drain has begun", func() bool {
		ready, message := askKubelet(t, queueProbe(g.port), testTimeout)
		return !ready && message == unavailable
	})
	checkKubelet(t, "without the header", get(g.port, "/"), false, unavailable)
	finish()
	if got := <-served; !strings.Contains(got, "served") {
		t.Errorf("the request in flight got %q", got)
	}
}
