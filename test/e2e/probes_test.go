package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

var proberAgents = []string{"kube-probe/1.33", "kube-probe/", "Knative-Activator-Probe", "Knative-Autoscaling-Probe"}

// notReady is the setting of a probe that fails at once.
func notReady(k *container) []string {
	return []string{
		fmt.Sprintf(`SERVING_READINESS_PROBE={"tcpSocket":{"port":%d,"host":"127.0.0.1"}}`, k.port),
		"READINESS_WAIT=50ms",
	}
}

func TestAReadinessProbeGets200WhileTheContainerIsReady(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, agent := range proberAgents {
		for _, line := range []string{
			"GET / HTTP/1.1\r\nHost: gate.test",
			"GET /healthz HTTP/1.1\r\nHost: 10.0.0.1:8012",
			"POST /some/where?x=1 HTTP/1.1\r\nHost: other\r\nContent-Length: 0",
			"DELETE //a/../b HTTP/1.1\r\nHost: x",
			"PURGE /p HTTP/1.1\r\nHost: x",
		} {
			c := dial(t, g)
			c.send(line + "\r\nUser-Agent: " + agent + "\r\nK-Network-Probe: queue\r\n\r\n")
			a := c.response("GET")
			a.is(200, "queue")
			a.field("Content-Type", "text/plain; charset=utf-8")
		}
	}
	k.unseen("a readiness probe")
}

func TestAReadinessProbeGetsAnEmpty503WhileTheContainerIsNotReady(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, notReady(k)...)
	for _, agent := range append(proberAgents, "curl/8", "") {
		c := dial(t, g)
		a := c.get("/healthz", "User-Agent: "+agent, "K-Network-Probe: queue")
		a.is(503, "")
		a.byGate()
	}
	k.listen()
	for _, agent := range append(proberAgents, "curl/8") {
		eventually(t, "a probe reports that the container is ready", func() bool {
			a := dial(t, g).get("/healthz", "User-Agent: "+agent, "K-Network-Probe: queue")
			return a.status == 200 && a.body == "queue"
		})
	}
}

func TestProbeFieldsMatchNamesInAnyCaseAndTheFirstValueCounts(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	dial(t, g).get("/", "uSeR-aGeNt: kube-probe/1", "k-NETWORK-probe:   queue  ").is(200, "queue")
	dial(t, g).get("/", "User-Agent: kube-probe/1", "User-Agent: curl/8", "K-Network-Probe: queue", "K-Network-Probe: other").is(200, "queue")
	dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: other", "K-Network-Probe: queue").
		plainError(400, "unexpected probe header value: other\n")
	k.unseen("a probe")
	// Field values and the prefixes of User-Agent are case-sensitive.
	for _, fields := range [][]string{
		{"User-Agent: Kube-Probe/1.33"},
		{"User-Agent: knative-activator-probe"},
		{"K-Network-Probe: Queue"},
		{"K-Network-Probe: PROBE", "K-Network-Hash: h"},
	} {
		forwarded(t, k, g, fields...)
	}
}

// forwarded fails unless a GET with these fields reaches the container, and returns the
// received head.
func forwarded(t *testing.T, k *container, g *gate, fields ...string) response {
	t.Helper()
	c := dial(t, g)
	c.send(request("GET", "/traffic", fields...))
	p := k.accept()
	head := p.head()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nforwarded")
	p.closeWrite()
	c.response("GET").is(200, "forwarded")
	c.close()
	return parseHead(t, head)
}

func TestProberWithAnyOtherProbeValueGets400(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, agent := range proberAgents {
		for _, value := range []string{"probe", "Queue", "queue2", "x y", "activator"} {
			a := dial(t, g).get("/", "User-Agent: "+agent, "K-Network-Probe: "+value, "K-Network-Hash: h")
			a.plainError(400, "unexpected probe header value: "+value+"\n")
		}
		dial(t, g).get("/", "User-Agent: "+agent).plainError(400, "unexpected probe header value: \n")
		dial(t, g).get("/", "User-Agent: "+agent, "K-Network-Probe:").plainError(400, "unexpected probe header value: \n")
	}
	k.unseen("a probe")
}

func TestAQueueProbeOfAnyUserAgentGetsALocalReply(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, agent := range []string{"", "curl/8", "kube-probe", "Knative-Ingress-Probe", "Go-http-client/1.1"} {
		a := dial(t, g).get("/a", "User-Agent: "+agent, "K-Network-Probe: queue")
		a.is(200, "queue")
		a.field("Content-Type", "text/plain; charset=utf-8")
	}
	dial(t, g).get("/a", "K-Network-Probe: queue").is(200, "queue")
	k.unseen("a probe")
}

func TestNetworkProbeEchoesTheHashWhileTheContainerIsDown(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, notReady(k)...)
	c := dial(t, g)
	for _, path := range []string{"/healthz", "/some/prefix/healthz", "/", "/?a=b"} {
		for _, hash := range []string{"override", "3f6d8e0c1a", "h w"} {
			a := c.get(path, "User-Agent: Knative-Ingress-Probe", "K-Network-Probe: probe", "K-Network-Hash: "+hash)
			a.is(200, "")
			a.field("K-Network-Hash", hash)
		}
	}
	a := c.get("/healthz", "K-Network-Probe: probe", "K-Network-Hash: first", "K-Network-Hash: second")
	a.is(200, "")
	a.field("K-Network-Hash", "first")
}

func TestNetworkProbeWithoutHashGets400(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	want := `a probe request must contain a non-empty "K-Network-Hash" header` + "\n"
	dial(t, g).get("/healthz", "User-Agent: Knative-Ingress-Probe", "K-Network-Probe: probe").plainError(400, want)
	dial(t, g).get("/healthz", "K-Network-Probe: probe", "K-Network-Hash:").plainError(400, want)
	k.unseen("a probe")
}

func TestRequestsWithFieldsThatOnlyResembleProbesAreForwarded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, fields := range [][]string{
		{"K-Network-Probe: activator"},
		{"K-Network-Probe:"},
		{"K-Kubelet-Probe: queue"},
		{"User-Agent: Knative-Ingress-Probe"},
		{"User-Agent: kube-probe"},
		{"User-Agent: x kube-probe/1.33"},
		{"K-Network-Hash: abc"},
	} {
		seen := forwarded(t, k, g, fields...)
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ":")
			seen.field(name, strings.TrimSpace(value))
		}
	}
}

func TestTheKubeletProbeFieldDoesNotBypassTheConcurrencyLimit(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=0")
	first := dial(t, g)
	first.send(request("GET", "/a", "K-Kubelet-Probe: queue"))
	p := k.accept()
	p.head()
	dial(t, g).get("/b", "K-Kubelet-Probe: queue").plainError(503, "pending request queue full\n")
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	first.response("GET").is(200, "")
}

func TestProbesWhileDrainingGet503ShuttingDown(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=60")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	for _, fields := range [][]string{
		{"User-Agent: kube-probe/1.33", "K-Network-Probe: queue"},
		{"User-Agent: kube-probe/1.33", "K-Network-Probe: other"},
		{"User-Agent: Knative-Activator-Probe"},
		{"User-Agent: Knative-Autoscaling-Probe", "K-Network-Probe: queue"},
		{"K-Network-Probe: queue"},
		{"K-Network-Probe: probe", "K-Network-Hash: h"},
		{"K-Network-Probe: probe"},
	} {
		dial(t, g).get("/", fields...).plainError(503, "shutting down\n")
	}
	k.unseen("a probe")
}

func TestOptionsStarGetsALocalReply(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	for range 2 {
		c.send("OPTIONS * HTTP/1.1\r\nHost: gate.test\r\n\r\n")
		c.response("OPTIONS").is(200, "")
	}
}

func TestQueueProbeEchoesAHash(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	a := dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue", "K-Network-Hash: abc")
	a.is(200, "queue")
	a.field("K-Network-Hash", "abc")
	dial(t, g).get("/", "K-Network-Probe: queue").lacks("K-Network-Hash")
}

func TestProbesMayUseEveryFormOfHTTP1(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	const probe = "User-Agent: kube-probe/1\r\nK-Network-Probe: queue\r\n"

	c := dial(t, g)
	c.send("HEAD / HTTP/1.1\r\nHost: x\r\n" + probe + "\r\n")
	a := c.response("HEAD")
	a.is(200, "")
	c.send("GET http://other.test/x HTTP/1.1\r\nHost: x\r\n" + probe + "\r\n")
	c.response("GET").is(200, "queue")
	c.send(strings.Repeat("GET /p HTTP/1.1\r\nHost: x\r\n"+probe+"\r\n", 3))
	for range 3 {
		c.response("GET").is(200, "queue")
	}
	c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n" + probe + "\r\nabcGET / HTTP/1.1\r\nHost: x\r\n" + probe + "\r\n")
	c.response("POST").is(200, "queue")
	c.response("GET").is(200, "queue")

	old := dial(t, g)
	old.send("GET / HTTP/1.0\r\n" + probe + "\r\n")
	a = old.response("GET")
	a.is(200, "queue")
	a.lacks("Transfer-Encoding")
	old.closed()

	keepAlive := dial(t, g)
	for range 2 {
		keepAlive.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" + probe + "\r\n")
		a = keepAlive.response("GET")
		a.is(200, "queue")
		a.field("Connection", "keep-alive")
	}
	k.unseen("a probe")
}

func TestProbesAreNeitherCountedNorQueued(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1")
	first, second := dial(t, g), dial(t, g)
	first.send(request("GET", "/a"))
	p := k.accept()
	p.head()
	second.send(request("GET", "/b"))
	g.awaitRead(second)
	dial(t, g).get("/c").plainError(503, "pending request queue full\n")
	for range 3 {
		dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
		dial(t, g).get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
		c := dial(t, g)
		c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
		c.response("OPTIONS").is(200, "")
	}
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	p.close()
	first.response("GET").is(200, "")
	q := k.accept()
	if got := parseHead(t, q.head()).line; got != "GET /b HTTP/1.1" {
		t.Fatalf("the container got %q", got)
	}
	q.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	second.response("GET").is(200, "")
	k.unseen("a probe")
}

func TestWithoutAReadinessProbeTheUserPortIsProbed(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	for _, s := range [][]string{
		{"SERVING_READINESS_PROBE="}, {"SERVING_READINESS_PROBE=[null]"}, {"SERVING_READINESS_PROBE=[null]", "ENABLE_MULTI_CONTAINER_PROBES=true"},
	} {
		g := startGate(t, &container{port: a.port}, append(s, "READINESS_WAIT=20ms")...)
		g.becomesNotReady(activator, "user-container: refused")
		defer g.becomesReady(activator)
	}
	a.listen(a.website)
}

func TestWithReadinessProbeNoneTheContainerIsAlwaysReady(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	for _, s := range [][]string{
		{"SERVING_READINESS_PROBE=none"}, {"SERVING_READINESS_PROBE=[]", "ENABLE_MULTI_CONTAINER_PROBES=true"},
	} {
		g := startGate(t, k, s...)
		dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	}
}

func (g *gate) awaitDraining() {
	g.t.Helper()
	eventually(g.t, "probes report that the gate drains", func() bool {
		c := dial(g.t, g)
		defer c.close()
		a := c.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue")
		return a.status == 503 && a.body == "shutting down\n"
	})
}
