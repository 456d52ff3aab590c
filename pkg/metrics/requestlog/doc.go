// Package requestlog writes a line about each request: in Knative's format,
// in a richer JSON, or as a text/template says.
//
// The request path only copies what a line needs and queues it, in bounded
// space: a writer that is slow or hangs costs lines, which are counted, never
// time. A goroutine renders and writes them, a burst with one write, and
// sleeps without a timer while there is nothing to write.
//
// Templates are text/template's, evaluated here over its parse tree: the
// library's own evaluator looks methods up by name, so the linker must keep
// every method of the program, 1 MiB of memory in each pod. Knowing the few
// types that a line is made of, this one can also keep a client's bytes from
// breaking a line or its JSON.
package requestlog
