// Package check implements the readiness checks of a container over HTTP, TCP and gRPC.
// Each kind of failure has a Cause. Package probe decides when to check, and evaluates
// the results.
package check
