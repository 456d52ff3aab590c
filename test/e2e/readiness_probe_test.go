package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnHTTPReadinessCheckSendsTheRequestOfTheKubelet(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		fields, line, host, agent string
		headers                   []string
	}{
		{``, "GET / HTTP/1.1", "127.0.0.1:PORT", "kube-probe/1 (queuegate)", nil},
		{`"path":"/ready?deep=1&x=a b"`, "GET /ready?deep=1&x=a%20b HTTP/1.1", "127.0.0.1:PORT", "kube-probe/1 (queuegate)", nil},
		{`"path":"ready","host":"localhost"`, "GET /ready HTTP/1.1", "localhost:PORT", "kube-probe/1 (queuegate)", nil},
		{`"port":"PORT","httpHeaders":[{"name":"Host","value":"app.example"},{"name":"X-Probe","value":"a"},{"name":"X-Probe","value":"b"},{"name":"User-Agent","value":"mine/1"}]`,
			"GET / HTTP/1.1", "app.example", "mine/1", []string{"a", "b"}},
	} {
		a := listeningApp(t)
		port := fmt.Sprint(a.port)
		g := startGateFor(t, a, `{"httpGet":{`+strings.ReplaceAll(x.fields, "PORT", port)+`}}`, "READINESS_FRESHNESS=1ms")
		for range 3 {
			g.ask(activator).ready()
			<-time.After(3 * time.Millisecond)
		}
		heads := a.requests()
		if len(heads) < 2 || len(heads) > a.count() {
			t.Errorf("%d probes came over %d connections, want a fresh one for each", len(heads), a.count())
		}
		seen := parseHead(t, heads[0])
		if seen.line != x.line {
			t.Errorf("the container got %q, want %q", seen.line, x.line)
		}
		seen.field("Host", strings.ReplaceAll(x.host, "PORT", port))
		seen.field("User-Agent", x.agent)
		seen.field("Connection", "close")
		seen.lacks("Content-Length", "Transfer-Encoding", "X-Forwarded-For", "Forwarded", "K-Network-Probe")
		if got := seen.all("X-Probe"); !slices.Equal(got, x.headers) {
			t.Errorf("X-Probe: %q, want %q", got, x.headers)
		}
	}
}

func TestAnApplicationThatRespondsAfter150MillisecondsBecomesReady(t *testing.T) {
	t.Parallel()
	slow := func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(150 * time.Millisecond)
		w.WriteHeader(200)
	}
	for _, probe := range []string{`{"httpGet":{}}`, `{"httpGet":{},"timeoutSeconds":1}`, `{"httpGet":{},"periodSeconds":1}`} {
		a := newApp(t)
		a.listen(http1(slow))
		startGateFor(t, a, probe).becomesReady(kubelet)
	}
}

func TestATCPCheckConnectsAndSendsNothing(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	k := startContainer(t)
	g := startGateFor(t, a, fmt.Sprintf(`{"tcpSocket":{"port":%d}}`, k.port), "READINESS_FRESHNESS=1ms")
	for range 3 {
		g.ask(activator).ready()
		<-time.After(3 * time.Millisecond)
	}
	// A check succeeds when the kernel has opened the connection. The container accepts it
	// later.
	eventually(t, "the container has accepted a connection for each probe", func() bool {
		n, err := k.Counts()
		must(t, err)
		if n.Waiting > 0 {
			t.Fatalf("%d of %d connections have sent bytes", n.Waiting, n.Accepted)
		}
		return n.Accepted >= 2
	})
}

func TestAGRPCReadinessCheckSendsTheRequestOfTheKubelet(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var probed []string
	a := newApp(t)
	a.listen(health(0, serving, func(path, message string) {
		mu.Lock()
		defer mu.Unlock()
		probed = append(probed, path+" "+message)
	}))
	startGateFor(t, a, `{"grpc":{"service":"shop.Cart"}}`).becomesReady(kubelet)
	startGateFor(t, a, fmt.Sprintf(`{"grpc":{"port":%d}}`, a.port)).becomesReady(activator)
	mu.Lock()
	defer mu.Unlock()
	const path = "/grpc.health.v1.Health/Check "
	want := []string{path + "\x00\x00\x00\x00\x0b\x0a\x09shop.Cart", path + "\x00\x00\x00\x00\x00"}
	isUnwanted := func(call string) bool { return !slices.Contains(want, call) }
	// The first gate continues to check, so the last call may be either.
	if len(probed) < 2 || probed[0] != want[0] || !slices.Contains(probed, want[1]) || slices.ContainsFunc(probed, isUnwanted) {
		t.Errorf("the container got the call %q, want %q", probed, want)
	}
}

func TestHTTP2WithoutTLSIsDetectedAndRemembered(t *testing.T) {
	t.Parallel()
	var protocol atomic.Value
	var requests atomic.Int64
	a := newApp(t)
	a.listen(h2c(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		protocol.Store(r.Proto)
	}))
	g := startGateFor(t, a, `{"httpGet":{"path":"/h2"}}`, "READINESS_FRESHNESS=1ms")
	g.ask(activator).ready()
	if protocol.Load() != "HTTP/2.0" {
		t.Errorf("the probe arrived as %v", protocol.Load())
	}
	for range 3 {
		// Another check may become due meanwhile. Then the test tries again.
		eventually(t, "a check of a known HTTP/2 server takes one connection", func() bool {
			<-time.After(3 * time.Millisecond)
			connections, served := a.count(), requests.Load()
			g.ask(activator).ready()
			return a.count()-connections == 1 && requests.Load()-served == 1
		})
	}
	// After a restart the application uses HTTP/1.
	a.unlisten()
	g.becomesNotReady(kubelet, "user-container: refused")
	a.listen(a.website)
	g.becomesReady(activator)
}

func TestHTTPSIsProbedWithoutVerification(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.listen(https(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	startGateFor(t, a, `{"httpGet":{"scheme":"HTTPS"}}`).becomesReady(kubelet)
}

func TestRedirectsAreFollowedOnTheSameHost(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	var last atomic.Int32
	last.Store(200)
	a.listen(http1(func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscanf(r.URL.Path, "/%d", &n)
		switch {
		case r.URL.Path == "/elsewhere":
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(301)
		case n > 0:
			w.Header().Set("Location", fmt.Sprintf("/%d", n-1))
			w.WriteHeader(302)
		default:
			w.WriteHeader(int(last.Load()))
		}
	}))
	g := startGateFor(t, a, `{"httpGet":{"path":"/10"},"periodSeconds":3600,"timeoutSeconds":60}`)
	g.ask(activator).ready()
	if n := a.count(); n != 11 {
		t.Errorf("10 redirects took %d requests", n)
	}
	startGateFor(t, a, `{"httpGet":{"path":"/elsewhere"}}`).ask(activator).ready()
	last.Store(404)
	startGateFor(t, a, `{"httpGet":{"path":"/1"}}`, "READINESS_WAIT=5ms").becomesNotReady(activator, "user-container: status 404")
}
