// Package http1 implements HTTP/1.0 and 1.1 on event loops: both sides of an exchange,
// towards clients and towards the user container.
//
// A session processes the current request of a connection in steps on the connection's
// event loop; no step blocks. Heads are parsed once, strictly (RFC 9112), and forwarded
// unchanged, including order, case, repeated fields and unusual bytes of the target.
// Framing is parsed once and generated again; messages that two parsers could read
// differently are rejected. Bodies are streamed in both directions at once through
// buffers of a fixed size.
package http1
