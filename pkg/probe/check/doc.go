// Package check implements the readiness checks of a container: one HTTP, TCP or gRPC
// check, with a Cause for each kind of failure. Package probe decides when to check,
// and what follows from the results.
package check
