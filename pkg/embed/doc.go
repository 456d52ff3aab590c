// Package embed is the gate as a library: admission, counting, the platform's probes
// and the drain for the handlers of a net/http server, in the same process and without
// a sidecar.
//
// Each request is classified first, regardless of path and method. The gate replies to
// probes of the platform. Any other request takes a slot, waits for one (in FIFO
// order, or as Config.QueueFairBy and Config.QueuePriorityBy say), or is rejected; then the wrapped handler is called. The slot is released when the
// handler returns, or when a hijacked connection is closed.
//
// Local replies contain K-Gate-Outcome; gRPC calls over HTTP/2 get a gRPC status.
// Handlers cannot set fields with that prefix.
//
// Everything exported is safe for concurrent use.
package embed
