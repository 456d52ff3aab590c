// Package embed is the gate as a library: admission, counting, the platform's
// probes and the drain around the handlers of a net/http server, in its own
// process and without a sidecar.
//
// A request is classified first, whatever its path and method: probes of the
// platform are answered here. Any other takes a slot, waits for one in FIFO
// order, or is refused; then the wrapped handler has it. The slot comes back
// when the handler returns, or, for a connection that it hijacked, when that
// is closed.
//
// What the gate answers itself carries K-Gate-Outcome, and reaches gRPC calls
// over HTTP/2 as a gRPC status. Handlers cannot set fields of that name.
//
// Everything exported is safe for concurrent use.
package embed
