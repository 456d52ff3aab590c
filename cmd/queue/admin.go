package main

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/queuegate/queuegate/pkg/gate"
)

// waitForSignal is how long /wait-for-drain waits for a drain to begin: the
// kubelet calls the hook and sends SIGTERM in no fixed order.
const waitForSignal = time.Second

// adminServer answers on the admin port.
type adminServer struct {
	drain  *gate.Drain
	server *fasthttp.Server
}

// startAdmin listens on the admin port, if there is one.
func startAdmin(cfg *Config, g *gate.Gate, log *zap.Logger) (*adminServer, error) {
	a := &adminServer{drain: g.Drain}
	if cfg.AdminPort == 0 {
		return a, nil
	}
	ln, err := listen(cfg.ListenAddress, cfg.AdminPort, "ADMIN_PORT")
	if err != nil {
		return nil, err
	}
	a.server = &fasthttp.Server{
		Handler:               a.handle,
		NoDefaultServerHeader: true,
		ReadTimeout:           10 * time.Second,
		Logger:                quiet{},
	}
	go a.serve(ln, log)
	return a, nil
}

func (a *adminServer) serve(ln net.Listener, log *zap.Logger) {
	if err := a.server.Serve(ln); err != nil {
		log.Error("the admin port ended", zap.Error(err))
	}
}

func (a *adminServer) handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/wait-for-drain":
		a.waitForDrain()
	default:
		ctx.Error("not found\n", fasthttp.StatusNotFound)
	}
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
	if a.server != nil {
		_ = a.server.Shutdown()
	}
}

// quiet drops fasthttp's own messages: what clients of the admin port do
// wrong is theirs to know.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
