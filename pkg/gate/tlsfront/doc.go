// Package tlsfront manages the certificate of the TLS port. It opens the port once there
// is a certificate. It also configures the TLS handshakes, but package server runs them.
//
// It promises:
//   - When the certificate files change, a file event makes the package load them, so
//     that the new certificate is in use within moments. Reload checks the files even
//     without an event. Open connections keep their keys, and session tickets stay valid.
//   - Certificate and key, in two files or in one credential bundle, change together
//     or not at all. If they cannot be loaded, the previous pair stays in use, and the
//     problem is reported once.
//   - An idle process is not woken.
package tlsfront
