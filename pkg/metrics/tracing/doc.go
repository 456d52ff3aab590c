// Package tracing creates three spans for a sampled request. They are the whole request
// (kn.queueproxy.proxy), its wait for a slot (kn.queueproxy.wait), and the time in the
// user container (kn.queueproxy.upstream). The package reads and writes W3C trace
// context and B3. It sends spans to Zipkin, to an OTLP collector or to standard output.
//
// A request that is not sampled costs a few comparisons and no allocation. No request
// waits for a collector: if the collector is too slow, spans are dropped and counted.
// Without spans to send, the package does not wake an idle process.
package tracing
