// Package tlsfront manages the certificate of the TLS port, opens the port once there
// is a certificate, and configures its handshakes, which package server runs.
//
// It promises:
//   - A certificate that changes on disk is in use within moments, by a file event;
//     Reload checks immediately. Open connections keep their keys, and session tickets
//     stay valid.
//   - Certificate and key, in two files or in one credential bundle, change together
//     or not at all. If they cannot be loaded, the previous pair stays in use, and the
//     problem is reported once.
//   - An idle process is not woken.
package tlsfront
