// Package otel runs Knative's queue-proxy and the gate in the same environments, and
// compares what an OTLP collector receives: destination, headers, resource, metrics, and
// which of 10,000 requests are sampled.
//
// queue-proxy has fixed ports, so each process runs in its own network namespace, with
// collector, application and client (cell_test.go). environments_test.go lists the
// environments, and the fields that differ on purpose. Any other difference fails the
// test, and so does a listed difference that does not exist.
//
// queue-proxy is built from the Go module knative.dev/serving, in the version of
// test/cluster/serving. QUEUE_PROXY_BINARY and QUEUEGATE_BINARY name binaries that are
// already built. The collector uses grpc-go, net/http and OpenTelemetry's message types,
// none of which the gate uses.
package otel
