// Grpc is a grpc-go server with an embedded gate. A grpc.Server is an http.Handler, so
// the gate wraps it like any other handler. A call that the gate rejects gets a gRPC
// status.
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/examples/helloworld/helloworld"

	"github.com/queuegate/queuegate/pkg/embed"
)

type greeter struct {
	helloworld.UnimplementedGreeterServer
}

func (greeter) SayHello(_ context.Context, in *helloworld.HelloRequest) (*helloworld.HelloReply, error) {
	return &helloworld.HelloReply{Message: "hello " + in.GetName()}, nil
}

func main() {
	listen := flag.String("listen", ":8080", "address for traffic and probes, HTTP/1 and h2c")
	metrics := flag.String("metrics", ":9091", "address for Prometheus")
	quiet := flag.Duration("quiet", 10*time.Second, "how long routers may take to notice the drain")
	flag.Parse()

	gate, err := embed.New(embed.Config{ConcurrencyLimit: 10, QueueCapacity: 100, RequestTimeout: time.Minute, DrainQuiet: *quiet})
	if err != nil {
		log.Fatal(err)
	}
	calls := grpc.NewServer()
	helloworld.RegisterGreeterServer(calls, greeter{})
	server := &http.Server{Handler: gate.Handler(calls), Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	server.Protocols.SetHTTP1(true)            // probes
	go serve("traffic", *listen, server)
	go serve("metrics", *metrics, &http.Server{Handler: gate.Metrics()})

	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	<-stopped.Done()

	grace, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
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
