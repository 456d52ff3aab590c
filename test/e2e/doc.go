// Package e2e starts the real gate and a scripted container as separate processes and
// checks the bytes on their sockets. ROWS.md lists the guarantees and the tests that
// verify them.
//
// Set QUEUEGATE_RACE=1 to build both with the race detector, and QUEUEGATE_BINARY to a
// path to test that binary instead of building cmd/queue. With OVERH2_TLS=1 the tests
// that are repeated over HTTP/2 use TLS.
package e2e
