// Package tlsfront serves TLS in front of the engines: it holds the
// certificate, accepts connections, does the handshakes and hands each
// connection on by its protocol (ALPN).
//
// It promises:
//   - A certificate that changes on disk is in use within moments, on the file
//     event, and Reload looks at once. No connection notices: those that are
//     open keep their keys, and session tickets stay good.
//   - Certificate and key change together or not at all. What cannot be loaded
//     leaves the old pair in place and is told, once.
//   - A handshake that is slow, broken or never begins holds up no other.
//   - An idle process is not woken.
package tlsfront
