// Package requestlog writes a line for each request: in Knative's format, in a richer
// JSON format, or by a text/template.
//
// The request path only copies what a line needs and queues it, within bounds: if the
// writer is slow or hangs, lines are dropped and counted, without delay. A goroutine
// renders and writes them, a burst in one write, and sleeps without a timer while there
// is nothing to write.
//
// Templates are text/templates of an http.Request that the goroutine creates. Their
// parse trees are rewritten so that each value is escaped for its context: a client
// cannot break a line or its JSON.
package requestlog
