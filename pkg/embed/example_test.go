package embed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/embed"
)

// A server with a gate, from its start to the end of its drain.
func Example() {
	gate, err := embed.New(embed.Config{
		ConcurrencyLimit: 10,
		QueueCapacity:    100,
		RequestTimeout:   5 * time.Minute,
		DrainQuiet:       10 * time.Millisecond, // use 10 s or more in production, so that routers notice the drain
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello")
	})
	server := &http.Server{Handler: gate.Handler(hello)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	})

	ask := func(field, value string) {
		request, err := http.NewRequest("GET", "http://"+listener.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		if field != "" {
			request.Header.Set(field, value)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %q %q\n", answer.StatusCode, body, answer.Header.Get("K-Gate-Outcome"))
	}
	ask("", "")
	ask("K-Network-Probe", "queue")

	// On SIGTERM:
	grace, done := context.WithTimeout(context.Background(), 25*time.Second)
	defer done()
	// During the drain, probes fail, so routers stop sending requests.
	if err := gate.Drain(grace); err != nil {
		log.Print(err)
	}
	// After the drain, no further requests arrive, so the listeners can be closed.
	if err := server.Shutdown(grace); err != nil {
		log.Print(err)
	}
	served.Wait()
	fmt.Println("drained")
	// Output:
	// 200 "hello" ""
	// 200 "queue" "probed"
	// drained
}

// New reports all problems together.
func ExampleNew() {
	_, err := embed.New(embed.Config{ConcurrencyLimit: -1, MetricsNames: "old"})
	fmt.Println(err)
	// Output:
	// ConcurrencyLimit -1: want 0 (unlimited) to 1048576
	// MetricsNames: metric names "old": want current, legacy or both
}

// Metrics are served on separate ports, to which clients have no access.
func ExampleGate_Stats() {
	gate, err := embed.New(embed.Config{Identity: embed.Identity{Namespace: "shop", Revision: "cart-00001"}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Print(http.ListenAndServe(":9090", gate.Stats())) }()
	go func() { log.Print(http.ListenAndServe(":9091", gate.Metrics())) }()
}

// Requests for some paths need no slot, because the gate does not wrap their handlers.
func ExampleGate_Handler() {
	gate, err := embed.New(embed.Config{ConcurrencyLimit: 1})
	if err != nil {
		log.Fatal(err)
	}
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, gate.InFlight(), "in flight")
	})
	mux := http.NewServeMux()
	mux.Handle("/", gate.Handler(work))
	mux.HandleFunc("/version", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "v1")
	})
}
