package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hooks receives the calls of IDLE_HOOK and WAKE_HOOK.
type hooks struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	wake  func() (status int) // status of the response to WAKE_HOOK; nil = 200
}

func startHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.calls = append(h.calls, r.Method+" "+r.URL.RequestURI())
		wake := h.wake
		h.mu.Unlock()
		if wake != nil && r.URL.Path == "/wake_up" {
			w.WriteHeader(wake())
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// settings returns the settings of the hooks, with an idle time of 100 ms.
func (h *hooks) settings() []string {
	return []string{"IDLE_STOP=100ms", "IDLE_HOOK=" + h.URL + "/sleep?level=1", "WAKE_HOOK=" + h.URL + "/wake_up"}
}

func (h *hooks) replies(wake func() int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake = wake
}

func (h *hooks) count(path string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, call := range h.calls {
		if call == "POST "+path {
			n++
		}
	}
	return n
}

func TestHooksTellAContainerToSleepAndToWake(t *testing.T) {
	t.Parallel()
	h, k := startHooks(t), startContainer(t)
	g := startGate(t, k, h.settings()...)
	eventually(t, "the container is woken at the start", func() bool { return h.count("/wake_up") == 1 })
	g.becomesReady(kubelet)
	g.fallsAsleep(1)
	c, p := inFlight(t, k, g, "/first")
	finish(c, p)
	g.fallsAsleep(2)
	if n := h.count("/sleep?level=1"); n != 2 {
		t.Errorf("IDLE_HOOK was called %d times", n)
	}
	awakened := strings.Count(g.Stderr.String(), "WAKE_HOOK was called")
	awake, woken := make(chan int), make(chan struct{}, 8)
	h.replies(func() int {
		woken <- struct{}{}
		return <-awake
	})
	c = dial(t, g)
	c.send(request("GET", "/second"))
	<-woken
	g.ask(kubelet).ready()
	if strings.Count(g.Stderr.String(), "WAKE_HOOK was called") != awakened {
		t.Error("the request is forwarded before WAKE_HOOK has replied")
	}
	third := queued(t, g, "/third")
	h.replies(nil)
	awake <- 204
	for range 2 { // the responses arrive in any order
		p := k.accept()
		p.head()
		p.send(okClose)
		p.close()
	}
	c.response("GET").is(200, "ok")
	third.response("GET").is(200, "ok")
	g.fallsAsleep(3)
	for range 20 { // a finished request must not wake the sleeping container
		g.ask(kubelet).ready()
	}
	if n := h.count("/wake_up"); n != 3 {
		t.Errorf("WAKE_HOOK was called %d times for two waiting requests", n-2)
	}
}

func TestARequestIsForwardedIfTheWakeHookFails(t *testing.T) {
	t.Parallel()
	h, k := startHooks(t), startContainer(t)
	g := startGate(t, k, append(h.settings(), "UPSTREAM_WAIT=3s")...)
	g.fallsAsleep(1)
	h.replies(func() int { return 500 })
	before := h.count("/wake_up")
	c, p := inFlight(t, k, g, "/")
	if n := h.count("/wake_up") - before; n < 2 {
		t.Errorf("WAKE_HOOK was called %d times before the request was forwarded", n)
	}
	retried := h.count("/wake_up")
	eventually(t, "the wake is retried", func() bool { return h.count("/wake_up") > retried })
	g.logs("WAKE_HOOK fails and is retried")
	if n := strings.Count(g.Stderr.String(), "WAKE_HOOK fails and is retried"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	finish(c, p)
}

func TestHooksReplaceTheStopOfAnApplication(t *testing.T) {
	t.Parallel()
	h, l := startHooks(t), newLedger(t)
	g := startGateWithApplication(t, append(h.settings(), l.setting(), "DRAIN_QUIET_SECONDS=0")...)
	g.fallsAsleep(1)
	first := g.fetch("/pid")
	g.fallsAsleep(2)
	if second := g.fetch("/pid"); second != first {
		t.Errorf("process %s, then %s", first, second)
	}
	if n := h.count("/wake_up"); n != 2 {
		t.Errorf("WAKE_HOOK was called %d times for two requests", n)
	}
	g.fallsAsleep(3)
	began := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(applicationExit)
	t.Logf("ended after %v", time.Since(began))
}
