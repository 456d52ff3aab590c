// Package embed is the gate as a library: admission, counting, the platform's probes
// and the drain for the handlers of a net/http server, in the same process and without
// a sidecar.
//
// Each request is classified first, regardless of path and method. The gate replies to
// probes of the platform itself. Any other request takes a slot, waits for a slot, or
// is rejected. Waiting requests are in FIFO order, unless Config.QueueFairBy or
// Config.QueuePriorityBy is set. A request with a slot is passed to the wrapped
// handler. The slot is released when the handler returns, or when a hijacked connection
// is closed.
//
// Local replies contain K-Gate-Outcome. A rejected gRPC call over HTTP/2 gets a gRPC
// status. Handlers cannot set fields whose names begin with K-Gate-.
//
// Everything exported is safe for concurrent use.
package embed
