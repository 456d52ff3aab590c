// Package check holds the probes that the gate runs itself: one attempt of an
// HTTP, TCP or gRPC probe against one container, with a Cause for each way to
// fail. When to probe, and what follows from the results, is pkg/probe's.
package check
