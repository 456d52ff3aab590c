// Package wire turns bytes into messages and back: heads and their framing,
// targets, hop-by-hop fields, chunked bodies (RFC 9112, RFC 9110). It knows no
// sockets and keeps no clock.
//
// A head is read once, strictly: what two parsers could read differently is
// refused. It goes on as it came, order, case and repetitions included, but for
// the fields that the contract adds, replaces or removes; framing is written
// anew.
package wire
