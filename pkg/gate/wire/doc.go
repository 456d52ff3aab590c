// Package wire parses and writes messages: heads, framing, targets, hop-by-hop fields and
// chunked bodies (RFC 9112, RFC 9110). It uses no sockets and no clock.
//
// A head that two parsers could read differently is rejected. Other heads are forwarded
// unchanged, including order, case and repeated fields, except for the fields that the
// gate adds, replaces or removes. Framing is generated.
package wire
