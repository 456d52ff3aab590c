// Package e2e starts the real gate and a scripted container as separate
// processes and looks at the bytes on their sockets. ROWS.md says which test
// stands for which row of the contract.
//
// Set QUEUEGATE_RACE=1 to build both with the race detector, and
// QUEUEGATE_BINARY to a path to test that binary instead of building
// cmd/queue.
package e2e
