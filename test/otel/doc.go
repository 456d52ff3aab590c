// Package otel runs Knative's queue-proxy and the gate with the same
// environment and compares what an OTLP collector receives from them:
// destination, headers, resource, metrics, and which of 10,000 requests are
// sampled.
//
// Each process runs in a separate network namespace together with the
// collector, the application and the client (cell_test.go), because queue-proxy
// listens on fixed ports. environments_test.go lists the environments, and the
// fields in which the gate differs on purpose. A difference that is not listed
// fails the test, and so does a listed difference that does not exist.
//
// queue-proxy is built from the Go module knative.dev/serving, in the version
// of test/cluster/serving. QUEUE_PROXY_BINARY and QUEUEGATE_BINARY name
// binaries that are already built. The collector uses grpc-go, net/http and the
// message types of OpenTelemetry, none of which the gate uses.
package otel
