package browser

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// container is a user container that can become not ready.
type container struct {
	port    int
	server  *httptest.Server
	unready atomic.Bool
	open    atomic.Bool // true = probes need not send probeSecret
}

// probeSecret is the credential of the readiness probe.
const probeSecret = "Bearer-of-the-probe"

func startContainer(t *testing.T) *container {
	t.Helper()
	c := new(container)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.server, c.port = server, server.Listener.Addr().(*net.TCPAddr).Port
	return c
}

// probe returns the value of SERVING_READINESS_PROBE.
func (c *container) probe() string {
	return fmt.Sprintf(`SERVING_READINESS_PROBE={"httpGet":{"path":"/ready","port":%d,`+
		`"httpHeaders":[{"name":"Authorization","value":%q}]}}`, c.port, probeSecret)
}

func (c *container) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ready" && (c.unready.Load() || !c.open.Load() && r.Header.Get("Authorization") != probeSecret):
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case strings.HasPrefix(r.URL.Path, "/broken"):
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	_, _ = io.WriteString(w, strings.Repeat("x", 2000))
}

// load starts clients that each send one request after another until stop is called. The
// duration of a request is random. Its average in ms is the parameter mean, and its
// minimum is half of that. One request in 40 takes ten times its random duration.
func load(t *testing.T, g *gate, clients, mean int) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: failsafe}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				ms := (float64(mean) + rand.ExpFloat64()*float64(mean)) / 2
				if rand.IntN(40) == 0 {
					ms *= 10
				}
				get(client, g.url(fmt.Sprintf("/work?ms=%.0f", ms)))
			}
		})
	}
	var closeOnce sync.Once
	stop = func() { closeOnce.Do(func() { close(done); all.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// get returns the status of the response, or 0 after an error.
func get(client *http.Client, url string) int {
	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// burst sends n concurrent requests, and counts the statuses.
func burst(g *gate, path string, n int) (statuses map[int]int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses = make(map[int]int)
	client := &http.Client{Transport: &http.Transport{}, Timeout: failsafe}
	defer client.CloseIdleConnections()
	for range n {
		all.Go(func() {
			status := get(client, g.url(path))
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	return statuses
}

// probe sends a readiness probe, as Knative's activator does.
func probe(g *gate) {
	request, err := http.NewRequest(http.MethodGet, g.url("/healthz"), nil)
	if err != nil {
		return
	}
	request.Header.Set("User-Agent", "Knative-Activator-Probe")
	request.Header.Set("K-Network-Probe", "queue")
	response, err := (&http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
}
