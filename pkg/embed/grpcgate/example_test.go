package grpcgate_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/embed/grpcgate"
)

// Calls are served on one port, and the platform's probes on another.
func ExampleServerOptions() {
	gate, err := embed.New(embed.Config{ConcurrencyLimit: 10, QueueCapacity: 100, QueueDeadlineBy: "header:grpc-timeout"})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Print(server.Serve(listener)) }()
	go func() { log.Print(http.ListenAndServe(":8081", gate.Handler(http.NotFoundHandler()))) }()

	// On SIGTERM:
	grace, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := gate.Drain(grace); err != nil {
		log.Print(err)
	}
	server.GracefulStop()
}
