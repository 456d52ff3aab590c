// Package http1 implements HTTP/1.0 and 1.1 on event loops: both sides of an exchange,
// downstream and upstream.
//
// A session processes one request at a time in steps that do not block. Heads are parsed
// once, strictly (RFC 9112), and forwarded unchanged, including order, case, repeated
// fields and unusual bytes of the target. Framing is parsed once and generated again.
// Messages that two parsers could read differently are rejected. Bodies are streamed
// through buffers of a fixed size.
package http1
