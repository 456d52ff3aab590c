// Package e2e starts the real gate and a scripted container as separate
// processes and looks at the bytes on their sockets. ROWS.md says which test
// stands for which row of the contract.
//
// Set QUEUEGATE_RACE=1 to build both with the race detector, and
// QUEUEGATE_BINARY to a path to test that binary instead of building
// cmd/queue. With OVERH2_TLS=1 the tests that are run once more over HTTP/2
// are so over TLS.
package e2e
