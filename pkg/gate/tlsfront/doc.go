// Package tlsfront serves TLS in front of the engines: it holds the
// certificate, does the handshakes of connections whose first bytes have come,
// and hands each connection on by its protocol (ALPN).
//
// It promises:
//   - A certificate that changes on disk is in use within moments, on the file
//     event; Reload checks at once. Open connections keep their keys, and
//     session tickets stay valid.
//   - Certificate and key change together or not at all. What cannot be loaded
//     leaves the old pair in place and is reported, once.
//   - A handshake that is slow, broken or never begins holds up no other. One
//     that has not begun costs nothing here.
//   - An idle process is not woken.
package tlsfront
