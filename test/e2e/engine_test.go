package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/atomic"
)

// enginePage is the metrics page of a model server.
type enginePage struct {
	*httptest.Server
	text  atomic.String
	reads atomic.Int64
	conns atomic.Int64 // open connections
}

func startEnginePage(t *testing.T) *enginePage {
	t.Helper()
	e := &enginePage{}
	e.shows(0, 0)
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.reads.Inc()
		_, _ = w.Write([]byte(e.text.Load()))
	}))
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			e.conns.Inc()
		case http.StateClosed:
			e.conns.Dec()
		}
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *enginePage) shows(waiting int, kv float64) {
	e.text.Store(fmt.Sprintf("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} %d.0\nvllm:kv_cache_usage_perc{model_name=\"m\"} %v\n", waiting, kv))
}

// awaitRead waits for a page that was requested after this call.
func (e *enginePage) awaitRead(t *testing.T) {
	t.Helper()
	n := e.reads.Load()
	eventually(t, "two more pages", func() bool { return e.reads.Load() >= n+2 })
}

// startBraked starts a gate without a concurrency limit that polls the page e. The gate
// ignores the page after ten periods without a valid one, so a short period would let a
// busy machine turn the limits off.
func startBraked(t *testing.T, k *container, e *enginePage, settings ...string) costGate {
	t.Helper()
	g, _, page := startObservedGate(t, k, append(settings, "CONTAINER_CONCURRENCY=0", "ENGINE_METRICS="+e.URL+"/metrics", "ENGINE_METRICS_PERIOD=400ms")...)
	return costGate{g, page}
}

func TestRequestsWaitWhileTheEnginesPageShowsAQueue(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	e.shows(3, 0.5)
	g := startBraked(t, k, e, "ENGINE_MAX_WAITING=2")
	a, atA := inFlight(t, k, g.gate, "/a")
	b := queued(t, g.gate, "/b")
	g.reports("queuegate_engine_waiting", 3)
	g.reports("queuegate_engine_kv_usage", 0.5)
	g.reports("queuegate_engine_queue_depth", 4)
	e.awaitRead(t)
	g.reports("kn_serving_queue_depth", 1)
	e.shows(2, 0.5)
	atB := k.acceptFor("/b")
	g.reports("queuegate_engine_queue_depth", 2)
	finish(a, atA)
	finish(b, atB)
}

func TestAFullKVCacheOfTheEngineLetsOneRequestRun(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	e.shows(0, 0.93)
	g := startBraked(t, k, e, "ENGINE_MAX_WAITING=10")
	c, p := inFlight(t, k, g.gate, "/0")
	for _, path := range []string{"/1", "/2"} {
		next := queued(t, g.gate, path)
		e.awaitRead(t)
		g.reports("queuegate_in_flight_requests", 1)
		finish(c, p)
		c, p = next, k.acceptFor(path)
	}
	// The share 0.89 is below the limit of 0.9 (ENGINE_MAX_KV). The gate nevertheless
	// lets only one request run until the share is at most 0.88.
	e.shows(0, 0.89)
	e.awaitRead(t)
	last := queued(t, g.gate, "/last")
	e.awaitRead(t)
	g.reports("queuegate_in_flight_requests", 1)
	e.shows(0, 0.85)
	atLast := k.acceptFor("/last")
	finish(c, p)
	finish(last, atLast)
}

func TestAnInvalidEnginePageIsIgnoredUntilItIsValidAgain(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	e.text.Store("no metrics\n")
	g := startBraked(t, k, e)
	a, atA := inFlight(t, k, g.gate, "/a")
	b := dial(t, g.gate)
	b.send(request("GET", "/b"))
	atB := k.acceptFor("/b")
	g.reports("queuegate_engine_silent", 1)
	g.logs("admission ignores them, and the other limits apply")
	e.shows(5, 0.5)
	g.logs("are valid again")
	g.reports("queuegate_engine_silent", 0)
	finish(a, atA)
	finish(b, atB)
}

func TestThePageOfTheEngineIsReadOnlyWhileThereAreRequests(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	g := startBraked(t, k, e)
	for range 2 {
		if n := e.conns.Load(); n != 0 {
			t.Errorf("%d connections for the page without a request", n)
		}
		c, p := inFlight(t, k, g.gate, "/")
		e.awaitRead(t)
		finish(c, p)
		eventually(t, "the gate closes its connection for the page", func() bool { return e.conns.Load() == 0 })
	}
}

func TestTheGateIsNotReadyWhileTheEngineHasNoRoom(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	e.shows(9, 0.5)
	g := startBraked(t, k, e, "READINESS_ROOM=50ms")
	g.ask(kubelet).ready()
	c, p := inFlight(t, k, g.gate, "/")
	g.becomesNotReady(kubelet, "engine: no room")
	e.shows(0, 0.5)
	g.becomesReady(kubelet)
	e.shows(9, 0.5)
	g.becomesNotReady(kubelet, "engine: no room")
	finish(c, p)
	g.becomesReady(kubelet)
}

func TestAPresetPreparesTheGateForAModelServer(t *testing.T) {
	t.Parallel()
	k, e := startContainer(t), startEnginePage(t)
	e.shows(0, 0.1)
	g, _, page := startObservedGate(t, k, "PRESET=vllm", "ENGINE_METRICS="+e.URL+"/metrics", "CONTAINER_CONCURRENCY=1", "QUEUE_CAPACITY=1")
	a, atA := inFlight(t, k, g, "/v1/completions")
	b := queued(t, g, "/v1/completions?b")
	dial(t, g).get("/v1/completions?c").plainError(429, "pending request queue full\n")
	scrape, atScrape := inFlight(t, k, g, "/metrics")
	finish(scrape, atScrape)
	costGate{g, page}.reports("queuegate_engine_kv_usage", 0.1)
	finish(a, atA)
	finish(b, k.acceptFor("/v1/completions?b"))
}
