package embed

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
)

func TestProbesGetAReplyOnAnyPath(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		s := newStage()
		r := newRig(t, protocol, Config{ConcurrencyLimit: 1}, s.handle)
		first := r.begin("/")
		testkit.Receive(t, "the first one", s.entered) // probes need no slot
		for _, c := range []struct {
			what    string
			fields  []string
			status  int
			body    string
			outcome string
			hash    string
		}{
			{"the activator", []string{"User-Agent", "Knative-Activator-Probe", "K-Network-Probe", "queue"}, 200, "queue", "probed", ""},
			{"a kubelet", []string{"User-Agent", "kube-probe/1.34", "K-Network-Probe", "queue"}, 200, "queue", "probed", ""},
			{"anybody", []string{"K-Network-Probe", "queue", "K-Network-Hash", "h"}, 200, "queue", "probed", "h"},
			{"an ingress", []string{"User-Agent", "Knative-Ingress-Probe", "K-Network-Probe", "probe", "K-Network-Hash", "override"}, 200, "", "probed", "override"},
			{"a kubelet with another value", []string{"User-Agent", "kube-probe/1.34", "K-Network-Probe", "other"}, 400,
				"unexpected probe header value: other\n", "probe-rejected", ""},
			{"an ingress without a hash", []string{"K-Network-Probe", "probe"}, 400,
				"a probe request must contain a non-empty \"K-Network-Hash\" header\n", "probe-rejected", ""},
		} {
			a := r.do("POST", "/any/path?at=all", "", c.fields...)
			a.want(t, c.status, c.body, c.outcome)
			if got := a.Header.Get("K-Network-Hash"); got != c.hash {
				t.Errorf("%s: hash %q, want %q", c.what, got, c.hash)
			}
		}
		if all, _ := r.gate.state().Counting.InFlight(); all != 1 {
			t.Errorf("%d in flight: probes are counted", all)
		}
		head := r.do("HEAD", "/", "", "K-Network-Probe", "queue")
		head.want(t, 200, "", "probed")
		traffic := r.do("GET", "/", "", "User-Agent", "Knative-Ingress-Probe")
		traffic.want(t, 503, "pending request queue full\n", "queue-full")

		_ = r.gate.Drain(ended(t))
		for _, fields := range [][]string{
			{"K-Network-Probe", "queue"}, {"K-Network-Probe", "probe", "K-Network-Hash", "h"}, {"User-Agent", "kube-probe/1.34"},
		} {
			a := r.do("GET", "/", "", fields...)
			a.want(t, 503, "shutting down\n", "shutting-down")
		}
		close(s.leave)
		testkit.Receive(t, "answer", first)
	})
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestTheApplicationDeterminesReadiness(t *testing.T) {
	ready := make(chan error, 1)
	r := newRig(t, "HTTP/1.1", Config{Ready: func(context.Context) error { return <-ready }}, func(http.ResponseWriter, *http.Request) {})
	ready <- errors.New("the database at 10.0.0.1 is away")
	a := r.do("GET", "/", "", "K-Network-Probe", "queue")
	a.want(t, 503, "", "not-ready")
	if got := a.Header.Get("K-Readiness-Reason"); got != "not ready" {
		t.Errorf("reason %q", got)
	}
	// A failed probe does not block traffic.
	traffic := r.do("GET", "/", "")
	traffic.want(t, 200, "", "")
	ready <- nil
	until(t, "ready", func() bool {
		a := r.do("GET", "/", "", "K-Network-Probe", "queue")
		return a.StatusCode == 200 && a.body == "queue"
	})
}

func TestReasonsOfReadinessStayInThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Config{Ready: func(ctx context.Context) error { panic("at 10.0.0.1") }})
		if err != nil {
			t.Fatal(err)
		}
		h := g.Handler(http.NotFoundHandler())
		for _, c := range []struct{ agent, peer, want string }{
			{"curl/8.5.0", "192.0.2.1:1000", "not ready"},
			{"curl/8.5.0", "@", "not ready"}, // a Unix socket
			{"kube-probe/1.34", "192.0.2.1:1000", "panic"},
			{"curl/8.5.0", "[::1]:1000", "panic"},
		} {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			r.Header = http.Header{"User-Agent": {c.agent}, "K-Network-Probe": {"queue"}}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Header().Get("K-Readiness-Reason"); w.Code != 503 || got != c.want {
				t.Errorf("%s from %s: %d, reason %q, want %q", c.agent, c.peer, w.Code, got, c.want)
			}
			time.Sleep(notReadyFor) // the next probe causes another check
		}
	})
}
