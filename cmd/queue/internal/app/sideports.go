package app

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// sidePorts are the ports beside the serving port. They are net/http's: unlike
// servers that keep a clock of their own, it lets an idle process sleep.
type sidePorts struct {
	log     *zap.Logger
	servers []*http.Server
}

// open serves h on a port; 0 means that it is off.
func (p *sidePorts) open(address string, port int, setting string, h http.Handler) error {
	if port == 0 {
		return nil
	}
	ln, err := listen(address, port, setting)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // what callers do wrong is theirs to know
	}
	p.servers = append(p.servers, server)
	go p.serve(server, ln, setting)
	return nil
}

func (p *sidePorts) serve(server *http.Server, ln net.Listener, setting string) {
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		p.log.Error("a port ended", zap.String("setting", setting), zap.Error(err))
	}
}

// close lets the calls under way have their answer.
func (p *sidePorts) close() {
	ctx, cancel := context.WithTimeout(context.Background(), healthPatience)
	defer cancel()
	for _, server := range p.servers {
		_ = server.Shutdown(ctx)
	}
}
