// Opencensus is a net/http server with an embedded gate that exports its metrics through
// OpenCensus, here to an exporter that prints them.
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

	"github.com/prometheus/client_golang/prometheus"
	"go.opencensus.io/metric/metricdata"
	"go.opencensus.io/metric/metricexport"
	"go.opencensus.io/metric/metricproducer"

	"github.com/queuegate/queuegate/pkg/embed"
	"github.com/queuegate/queuegate/pkg/metrics/census"
)

func main() {
	listen := flag.String("listen", ":8080", "address for traffic and probes")
	interval := flag.Duration("interval", 10*time.Second, "time between two exports, 1s or more")
	quiet := flag.Duration("quiet", 10*time.Second, "how long routers may take to notice the drain")
	flag.Parse()

	gate, err := embed.New(embed.Config{ConcurrencyLimit: 10, QueueCapacity: 100, RequestTimeout: time.Minute, DrainQuiet: *quiet})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(gate.Collector())
	producer := census.NewProducer(registry.Gather, func(err error) { log.Print(err) })
	metricproducer.GlobalManager().AddProducer(producer)
	export, err := metricexport.NewIntervalReader(metricexport.NewReader(), printer{})
	if err != nil {
		log.Fatal(err)
	}
	export.ReportingInterval = *interval
	if err := export.Start(); err != nil {
		log.Fatal(err)
	}
	defer export.Stop()

	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello, counted by OpenCensus")
	})
	server := &http.Server{Handler: gate.Handler(hello)}
	go serve("traffic", *listen, server)

	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	<-stopped.Done()

	grace, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(gate.Drain(grace), server.Shutdown(grace)); err != nil {
		log.Fatal(err)
	}
}

type printer struct{}

func (printer) ExportMetrics(_ context.Context, all []*metricdata.Metric) error {
	for _, m := range all {
		for _, series := range m.TimeSeries {
			for _, point := range series.Points {
				fmt.Println(m.Descriptor.Name, values(series.LabelValues), point.Value)
			}
		}
	}
	return nil
}

func values(labels []metricdata.LabelValue) []string {
	var list []string
	for _, l := range labels {
		list = append(list, l.Value)
	}
	return list
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
