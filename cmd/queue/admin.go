package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/probe"
)

// waitForSignal is how long /wait-for-drain waits for a drain to begin: the
// kubelet calls the hook and sends SIGTERM in no fixed order.
const waitForSignal = time.Second

// healthPatience is a little less than the kubelet's.
const healthPatience = 900 * time.Millisecond

// adminServer answers on the admin port, and on a port for application
// probes if that has one of its own.
type adminServer struct {
	drain     *gate.Drain
	ready     *readiness
	appProbes *probe.AppProbes
	servers   []*fasthttp.Server
}

// startAdmin listens on the ports that are not 0.
func startAdmin(cfg *Config, g *gate.Gate, ready *readiness, log *zap.Logger) (*adminServer, error) {
	appProbes, err := probe.ParseAppProbes(cfg.AppProbers(), probe.AppProbeOptions{
		Host: cfg.AppProbeHost,
		OnChange: func(c probe.AppChange) {
			log.Info(c.String(), zap.String("path", c.Path), zap.String("from", c.From.Token()), zap.String("to", c.To.Token()))
		},
	})
	if err != nil {
		return nil, err
	}
	a := &adminServer{drain: g.Drain, ready: ready, appProbes: appProbes}
	for _, port := range []struct {
		number  int
		setting string
		handler fasthttp.RequestHandler
	}{
		{cfg.AdminPort, "ADMIN_PORT", a.handle},
		{cfg.AppProbePort, "APP_PROBE_PORT", a.handleAppProbe},
	} {
		if port.number == 0 {
			continue
		}
		ln, err := listen(cfg.ListenAddress, port.number, port.setting)
		if err != nil {
			a.close()
			return nil, err
		}
		server := &fasthttp.Server{
			Handler:               port.handler,
			NoDefaultServerHeader: true,
			ReadTimeout:           10 * time.Second,
			Logger:                quiet{},
		}
		a.servers = append(a.servers, server)
		go serveSide(server, ln, log, port.setting)
	}
	return a, nil
}

func serveSide(server *fasthttp.Server, ln net.Listener, log *zap.Logger, setting string) {
	if err := server.Serve(ln); err != nil {
		log.Error("a port ended", zap.String("setting", setting), zap.Error(err))
	}
}

func (a *adminServer) handle(ctx *fasthttp.RequestCtx) {
	switch path := string(ctx.Path()); {
	case path == "/wait-for-drain":
		a.waitForDrain()
	case path == "/health/alive":
		health(ctx, fasthttp.StatusOK, "Service is alive")
	case path == "/health/ready" || path == "/healthz":
		a.health(ctx)
	case strings.HasPrefix(path, "/app-health/") || strings.HasPrefix(path, "/app-lifecycle/"):
		a.handleAppProbe(ctx)
	default:
		health(ctx, fasthttp.StatusNotFound, "not found")
	}
}

// health tells what a readiness probe on the serving port would.
func (a *adminServer) health(ctx *fasthttp.RequestCtx) {
	if a.drain.Active() {
		health(ctx, fasthttp.StatusServiceUnavailable, "shutting down")
		return
	}
	asked, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	if answer := a.ready.Ask(asked, gate.Kubelet); !answer.Ready {
		health(ctx, fasthttp.StatusServiceUnavailable, answer.Reason)
		return
	}
	health(ctx, fasthttp.StatusOK, "Service is ready")
}

func health(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text)
}

// handleAppProbe probes the application in the kubelet's place.
func (a *adminServer) handleAppProbe(ctx *fasthttp.RequestCtx) {
	header := make(http.Header)
	for name, value := range ctx.Request.Header.All() {
		header.Add(string(name), string(value))
	}
	answer := a.appProbes.Do(ctx, string(ctx.Path()), header)
	ctx.SetStatusCode(answer.Status)
	ctx.SetContentType(answer.ContentType)
	if answer.Reason != "" {
		ctx.Response.Header.Set("K-Probe-Reason", answer.Reason)
	}
	ctx.SetBody(answer.Body)
}

// waitForDrain only waits: it never begins a drain and changes no answer to a
// probe, because anyone who reaches the port can call it.
func (a *adminServer) waitForDrain() {
	timer := time.NewTimer(waitForSignal)
	defer timer.Stop()
	select {
	case <-a.drain.Started():
		<-a.drain.Ended()
	case <-timer.C:
	}
}

// close lets the calls that wait for the drain have their answer.
func (a *adminServer) close() {
	for _, server := range a.servers {
		_ = server.Shutdown()
	}
}

// quiet drops fasthttp's own messages: what clients of the admin port do
// wrong is theirs to know.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
