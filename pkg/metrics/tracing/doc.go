// Package tracing creates three spans for a sampled request: the whole request
// (kn.queueproxy.proxy), its wait for a slot (kn.queueproxy.wait) and the user
// container's part (kn.queueproxy.upstream). It reads and writes W3C trace context and
// B3, and sends spans to Zipkin, to an OTLP collector or to standard output.
//
// A request that is not sampled costs a few comparisons and no allocation. Nothing
// waits for a collector: if it is too slow, spans are dropped and counted. A process
// without spans to send does not wake up.
package tracing
