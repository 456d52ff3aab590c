package knative

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"knative.dev/networking/pkg/apis/networking/v1alpha1"
	nethttp "knative.dev/networking/pkg/http"
	"knative.dev/networking/pkg/http/header"
	"knative.dev/networking/pkg/http/probe"
	"knative.dev/networking/pkg/ingress"
	"knative.dev/networking/pkg/prober"
	"knative.dev/networking/pkg/status"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/network"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// activatorOptions are the options of the activator's probes. They are copied from
// revisionWatcher.probe in knative.dev/serving/pkg/activator/net. The activator probes
// every 200 ms, with a timeout of 300 ms.
var activatorOptions = []any{
	prober.WithHeader(header.ProbeKey, "queue"),
	prober.WithHeader(header.UserAgentKey, header.ActivatorUserAgent),
	prober.ExpectsStatusCodes([]int{http.StatusOK}),
	prober.ExpectsBody("queue"),
}

// autoscalerOptions are the options of the autoscaler's probes. They are copied from the
// variable probeOptions in knative.dev/serving/pkg/reconciler/autoscaling/kpa. Before the
// autoscaler scales a service to zero, such a probe must show that the activator serves
// the service.
var autoscalerOptions = []any{
	prober.WithHeader(header.UserAgentKey, header.AutoscalingUserAgent),
	prober.WithHeader(header.ProbeKey, "activator"),
	prober.ExpectsBody("activator"),
	prober.ExpectsStatusCodes([]int{http.StatusOK}),
}

// ask sends a probe with Knative's prober and transport.
func ask(t *testing.T, g *gate, path string, options ...any) (bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	return prober.Do(ctx, network.NewProberTransport(), g.url(path), options...)
}

func TestActivatorSendsTrafficOnceTheContainerIsReadyAndNoneInADrain(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbe, port), "READINESS_WAIT=100ms", "DRAIN_QUIET_SECONDS=60")
	ok, err := ask(t, g, nethttp.HealthCheckPath, activatorOptions...)
	if ok || err == nil || !strings.Contains(err.Error(), "unexpected status code: want [200], got 503") {
		t.Errorf("nothing listens: ok=%v, %v", ok, err)
	}

	l, err := net.Listen("tcp", launch.Address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eventually(t, "the activator finds the pod ready", func() bool {
		ok, err := ask(t, g, nethttp.HealthCheckPath, activatorOptions...)
		return ok && err == nil
	})
	// With pass-through load balancing in a mesh, the activator's probe names the private
	// service of the revision as its host. The gate must respond in the same way.
	eventually(t, "the same with pass-through load balancing", func() bool {
		ok, err := ask(t, g, nethttp.HealthCheckPath, append([]any{
			prober.WithHost("rev-private.ns"), prober.WithHeader(header.PassthroughLoadbalancingKey, "true"),
		}, activatorOptions...)...)
		return ok && err == nil
	})

	g.drain()
	eventually(t, "the activator no longer finds it ready", func() bool {
		ok, err := ask(t, g, nethttp.HealthCheckPath, activatorOptions...)
		return !ok && err != nil && strings.Contains(err.Error(), "got 503")
	})
}

func TestProbeManagerOfKnativeFindsTheContainerOnceItListens(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbe, port))
	type outcome struct {
		arg any
		ok  bool
		err error
	}
	done := make(chan outcome, 1)
	manager := prober.New(func(arg any, ok bool, err error) { done <- outcome{arg, ok, err} }, network.NewProberTransport())
	ctx := logging.WithLogger(t.Context(), zap.NewNop().Sugar())
	if !manager.Offer(ctx, g.url(nethttp.HealthCheckPath), "pod", 10*time.Millisecond, testTimeout, activatorOptions...) {
		t.Fatal("the manager does not probe")
	}
	l, err := net.Listen("tcp", launch.Address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := <-done; got != (outcome{"pod", true, nil}) {
		t.Errorf("got %+v", got)
	}
}

func TestAutoscalerDoesNotMistakeTheGateForTheActivator(t *testing.T) {
	var traffic atomic.Int32
	g := startGate(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traffic.Add(1)
		_, _ = io.WriteString(w, "activator")
	})))
	// The autoscaler makes the URL of its probe from host:port, "/" and HealthCheckPath,
	// which also begins with "/". The path therefore begins with two slashes.
	for _, path := range []string{nethttp.HealthCheckPath, "/" + nethttp.HealthCheckPath} {
		if ok, err := ask(t, g, path, autoscalerOptions...); ok || err == nil {
			t.Errorf("%s: ok=%v, %v", path, ok, err)
		}
	}
	if n := traffic.Load(); n != 0 {
		t.Errorf("%d probes reached the container", n)
	}
}

func TestNetworkProbesGetTheResponsesOfKnativesHandler(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbe, port), "READINESS_WAIT=0")
	theirs := httptest.NewServer(probe.NewHandler(http.NotFoundHandler()))
	defer theirs.Close()
	for _, path := range []string{"/healthz", "/some/prefix/healthz", "/"} {
		for _, fields := range []http.Header{
			{header.UserAgentKey: {header.IngressReadinessUserAgent}, header.ProbeKey: {header.ProbeValue}, header.HashKey: {header.HashValueOverride}},
			{header.ProbeKey: {header.ProbeValue}, header.HashKey: {strings.Repeat("0f", 32)}},
			{header.ProbeKey: {header.ProbeValue}, header.HashKey: {"first", "second"}},
			{header.ProbeKey: {header.ProbeValue}, header.HashKey: {""}},
			{header.ProbeKey: {header.ProbeValue}},
		} {
			if got, want := exchange(t, g.url(path), fields), exchange(t, theirs.URL+path, fields); got != want {
				t.Errorf("%s with %v:\ngot  %s\nwant %s", path, fields, got, want)
			}
		}
	}
}

// exchange returns the parts of the response that a prober uses.
func exchange(t *testing.T, url string, fields http.Header) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = fields.Clone()
	response, err := network.NewProberTransport().RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %q hash %q type %q", response.StatusCode, body, response.Header[header.HashKey], response.Header["Content-Type"])
}

// gateway is an ingress gateway in front of the gate. If a probe has the value "override"
// in its hash field, the gateway replaces the value by the hash of its configuration.
type gateway struct {
	*httptest.Server
	hash   atomic.Value
	echoed atomic.Int32 // responses with that hash
}

func startGateway(t *testing.T, g *gate) *gateway {
	w := &gateway{}
	w.hash.Store("of an older configuration")
	proxy := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: launch.Address(g.port)})
			if r.In.Header.Get(header.HashKey) == header.HashValueOverride {
				r.Out.Header.Set(header.HashKey, w.hash.Load().(string))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusOK && r.Header.Get(header.HashKey) == r.Request.Header.Get(header.HashKey) {
				w.echoed.Add(1)
			}
			return nil
		},
	}
	w.Server = httptest.NewServer(proxy)
	t.Cleanup(w.Close)
	return w
}

// ListProbeTargets returns the gateway as the only target of every ingress.
func (w *gateway) ListProbeTargets(context.Context, *v1alpha1.Ingress) ([]status.ProbeTarget, error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, err
	}
	return []status.ProbeTarget{{
		PodIPs:  sets.New(u.Hostname()),
		PodPort: u.Port(),
		URLs:    []*url.URL{{Scheme: "http", Host: "hello.example.com"}, {Scheme: "http", Host: "hello.example.com", Path: "/prefix"}},
	}}, nil
}

func TestKnativesIngressProberSeesTheConfigurationWhileTheContainerIsDown(t *testing.T) {
	port := launch.FreePort(t)
	g := startGate(t, port, fmt.Sprintf(tcpProbe, port))
	w := startGateway(t, g)
	ready := make(chan string, 1)
	quiet := zap.NewNop().Sugar()
	ingresses := status.NewProber(quiet, w, func(i *v1alpha1.Ingress) { ready <- i.Name })
	stop := make(chan struct{})
	stopped := ingresses.Start(stop)
	defer func() { close(stop); <-stopped }()

	i := &v1alpha1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hello"}}
	hash, err := ingress.ComputeHash(i)
	if err != nil {
		t.Fatal(err)
	}
	ctx := logging.WithLogger(t.Context(), quiet)
	if ok, err := ingresses.IsReady(ctx, i); ok || err != nil {
		t.Fatalf("before the first probe: %v, %v", ok, err)
	}
	// Both targets are probed three times.
	eventually(t, "six probe responses had the older hash", func() bool { return w.echoed.Load() >= 6 })
	if ok, err := ingresses.IsReady(ctx, i); ok || err != nil || len(ready) != 0 {
		t.Fatalf("with the older configuration in force: %v, %v", ok, err)
	}
	w.hash.Store(fmt.Sprintf("%x", hash))
	select {
	case name := <-ready:
		if name != "hello" {
			t.Errorf("got %s", name)
		}
	case <-time.After(testTimeout):
		t.Fatal("not ready with the new configuration")
	}
	if ok, err := ingresses.IsReady(ctx, i); !ok || err != nil {
		t.Errorf("after: %v, %v", ok, err)
	}
}
