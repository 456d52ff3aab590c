// Package requestlog writes a line about each request: in Knative's format,
// in a richer JSON, or as a text/template says.
//
// The request path only copies what a line needs and queues it, in bounded
// space: a writer that is slow or hangs costs lines, which are counted, never
// time. A goroutine renders and writes them, a burst with one write, and
// sleeps without a timer while there is nothing to write.
//
// Templates are text/template's, over an http.Request that the goroutine
// makes. Their trees are rewritten so that each value is escaped where it
// stands, and a client can break neither a line nor its JSON.
package requestlog
