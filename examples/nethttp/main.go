// Nethttp is a net/http server with an embedded gate: ten concurrent requests,
// a queue, probes, metrics and a drain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/pkg/embed"
)

func main() {
	listen := flag.String("listen", ":8080", "address for traffic and probes")
	metrics := flag.String("metrics", ":9091", "address for Prometheus")
	quiet := flag.Duration("quiet", 10*time.Second, "how long routers may take to notice the drain")
	flag.Parse()

	gate, err := embed.New(embed.Config{
		ConcurrencyLimit: 10,
		QueueCapacity:    100,
		QueueMaxWait:     10 * time.Second,
		RequestTimeout:   time.Minute,
		DrainQuiet:       *quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello from net/http")
	})
	server := &http.Server{Handler: gate.Handler(hello)}
	go serve("traffic", *listen, server)
	go serve("metrics", *metrics, &http.Server{Handler: gate.Metrics()})

	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	<-stopped.Done()

	grace, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// Drain first, because routers must notice the drain while the port is open.
	if err := errors.Join(gate.Drain(grace), server.Shutdown(grace)); err != nil {
		log.Fatal(err)
	}
}

func serve(what, address string, server *http.Server) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s on %s", what, listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
