// Package tlsfront holds the certificate of the TLS port, opens the port once
// there is one, and says how its handshakes are done; package server does them.
//
// It promises:
//   - A certificate that changes on disk is in use within moments, on the file
//     event; Reload checks at once. Open connections keep their keys, and
//     session tickets stay valid.
//   - Certificate and key change together or not at all. What cannot be loaded
//     leaves the old pair in place and is reported, once.
//   - An idle process is not woken.
package tlsfront
