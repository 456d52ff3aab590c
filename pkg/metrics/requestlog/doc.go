// Package requestlog writes a line for each request: in Knative's format, in a richer
// JSON format, or by a text/template.
//
// The request path copies the parts of a request that its line needs, and queues the
// copy. The queue is bounded. If the writer is slow or hangs, lines are dropped and
// counted, and requests are not delayed. One goroutine renders and writes the lines. It
// writes a burst of lines at once, and sleeps without a timer while there is nothing to
// write.
//
// A template is a text/template whose data is an http.Request that the goroutine
// creates. Its parse tree is rewritten so that each value is escaped for its context.
// So a client cannot break a line or its JSON.
package requestlog
