// Package embed is the gate as a library: admission, counting, the platform's probes
// and the drain for the handlers of a net/http server, in the same process and without
// a sidecar.
//
// The gate replies to the platform's probes. Any other request gets a slot, waits for a
// slot, or is rejected. Queued requests are in FIFO order, unless Config.QueueFairBy or
// Config.QueuePriorityBy is set. The slot is released when the wrapped handler returns,
// or when a hijacked connection is closed.
//
// Local replies contain K-Gate-Outcome. A rejected gRPC call over HTTP/2 gets a gRPC
// status. Handlers cannot set fields whose names begin with K-Gate-.
//
// Everything exported is safe for concurrent use.
package embed
