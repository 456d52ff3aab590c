// Fasthttp is a fasthttp server with an embedded gate. Stats and metrics are
// served by net/http on another port.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/fast"
)

func main() {
	listen := flag.String("listen", ":8080", "address for traffic and probes")
	metrics := flag.String("metrics", ":9091", "address for Prometheus")
	quiet := flag.Duration("quiet", 10*time.Second, "how long routers may take to notice the drain")
	flag.Parse()

	gate, err := embed.New(embed.Config{ConcurrencyLimit: 10, QueueCapacity: 100, QueueMaxWait: 10 * time.Second, DrainQuiet: *quiet})
	if err != nil {
		log.Fatal(err)
	}
	hello := func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("hello from fasthttp\n") }
	server := &fasthttp.Server{Handler: fast.Handler(gate, hello)}
	go func() {
		if err := server.Serve(open("traffic", *listen)); err != nil {
			log.Fatal(err)
		}
	}()
	go func() { log.Fatal(http.Serve(open("metrics", *metrics), gate.Metrics())) }()

	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	<-stopped.Done()

	grace, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(gate.Drain(grace), server.ShutdownWithContext(grace)); err != nil {
		log.Fatal(err)
	}
}

func open(what, address string) net.Listener {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s on %s", what, listener.Addr())
	return listener
}
