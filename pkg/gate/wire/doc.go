// Package wire parses and writes messages: heads and their framing, targets, hop-by-hop
// fields, chunked bodies (RFC 9112, RFC 9110). It uses no sockets and no clock.
//
// A head is parsed once, strictly: if two parsers could read it differently, it is
// rejected. It is forwarded unchanged, including order, case and repeated fields,
// except for the fields that the gate adds, replaces or removes. Framing is generated.
package wire
