package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/probe"
)

// waitForSignal is how long /wait-for-drain waits for a drain to begin, because the
// kubelet calls the hook and sends SIGTERM in no fixed order. ?begins-within=10s
// changes it, up to longestWait. A restart without a drain is delayed by this time.
const (
	waitForSignal = time.Second
	longestWait   = time.Minute
)

// mostWaiters limits concurrent calls of /wait-for-drain, so that the kubelet's probes
// still get connections. Further calls get 503.
const mostWaiters = 16

// healthTimeout is slightly less than the kubelet's default timeout of 1 s, so that the
// kubelet gets the response.
const healthTimeout = 900 * time.Millisecond

// adminServer serves the admin port, and the port for application probes if they have a
// separate one.
type adminServer struct {
	drain     *exchange.Drain
	ready     *readiness
	appProbes *probe.AppProbes
	idle      *Idle        // nil = the application is never suspended
	waiters   atomic.Int32 // pending calls of /wait-for-drain
}

func newAdmin(cfg *config.Config, drain *exchange.Drain, ready *readiness, log *zap.Logger) (*adminServer, error) {
	appProbes, err := probe.ParseAppProbes(cfg.AppProbers, probe.AppProbeOptions{
		Host: cfg.AppProbeHost,
		OnChange: func(c probe.AppChange) {
			log.Info(c.String(), zap.String("path", c.Path), zap.String("from", c.From.Token()), zap.String("to", c.To.Token()))
		},
	})
	return &adminServer{drain: drain, ready: ready, appProbes: appProbes}, err
}

func (a *adminServer) handle(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/wait-for-drain":
		a.waitForDrain(w, r)
	case path == "/health/alive":
		say(w, http.StatusOK, "Service is alive")
	case path == "/health/ready" || path == "/healthz":
		a.health(w, r)
	case strings.HasPrefix(path, "/app-health/") || strings.HasPrefix(path, "/app-lifecycle/"):
		a.handleAppProbe(w, r)
	default:
		say(w, http.StatusNotFound, "not found")
	}
}

// health replies like a readiness probe on the serving port.
func (a *adminServer) health(w http.ResponseWriter, r *http.Request) {
	if a.drain.Terminating() {
		say(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	a.idle.awaitResume(ctx)
	if result := a.ready.probes.Wait(ctx, gate.Kubelet); !result.Ready {
		peer, _ := netip.ParseAddrPort(r.RemoteAddr)
		say(w, http.StatusServiceUnavailable, result.ReasonFor(gate.ProberOf([]byte(r.UserAgent())), peer.Addr()))
		return
	}
	say(w, http.StatusOK, "Service is ready")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// handleAppProbe runs an application probe for the kubelet. While the application is
// asleep, all probes succeed, so that the kubelet does not restart the container. With
// IDLE_WAKE_BY_PROBES a readiness probe wakes the application.
func (a *adminServer) handleAppProbe(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/readyz") {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		a.idle.awaitResume(ctx)
	}
	if a.idle != nil && !a.idle.standby.Running() && !(a.idle.byProbes && strings.HasSuffix(r.URL.Path, "/readyz")) {
		say(w, http.StatusOK, "asleep")
		return
	}
	response := a.appProbes.Do(r.Context(), r.URL.Path, r.Header)
	if response.ContentType != "" {
		w.Header().Set("Content-Type", response.ContentType)
	}
	if response.Reason != "" {
		w.Header().Set("K-Probe-Reason", response.Reason)
	}
	w.WriteHeader(response.Status)
	_, _ = w.Write(response.Body)
}

// waitForDrain delays the container's preStop hook until no request is open. Tunnels
// may still be open: the container closes its WebSockets on SIGTERM, after this reply.
//
// Anyone who can reach the port can call it, so it does not begin a drain.
func (a *adminServer) waitForDrain(w http.ResponseWriter, r *http.Request) {
	within := waitForSignal
	if text := r.URL.Query().Get("begins-within"); text != "" {
		var err error
		if within, err = time.ParseDuration(text); err != nil || within < 0 || within > longestWait {
			say(w, http.StatusBadRequest, fmt.Sprintf("begins-within=%q is not a duration from 0s to %v", text, longestWait))
			return
		}
	}
	defer a.waiters.Add(-1)
	if a.waiters.Add(1) > mostWaiters {
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "too many calls wait for a drain")
		return
	}
	ctx := r.Context()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-timer.C:
		return
	case <-ctx.Done():
		return
	case <-a.drain.Started():
	}
	select {
	case <-ctx.Done():
	case <-a.drain.Served():
	case <-a.drain.Ended():
	}
}
