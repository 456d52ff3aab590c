// Package probe decides whether a pod accepts traffic. It parses the containers'
// readiness probes in Kubernetes' format and checks each container in the background.
// It replies to all probers from the states of the containers.
//
// It promises:
//
//   - At most one check of a container runs at any time, regardless of the number of
//     probers. With periodSeconds > 0 the application gets at most one check per period
//     once it is ready.
//   - A container that starts to listen is noticed within the delays documented at
//     history.delay. All waiting probers get their reply at once.
//   - An adaptive result (periodSeconds 0 or absent) is never based on a check older
//     than Options.Freshness.
//   - When a container stops listening, the first refused connection, in a check or
//     reported by Observed, makes the pod not ready.
//   - Each failure has a Cause that is short and safe to show.
//
// ParseSpec parses the probes. New creates a container for each of them. Run starts one
// goroutine per container, which runs the container's Checker when a check is due, and
// updates the state. The history of earlier checks decides when a check is due. Try,
// Wait and Await evaluate the states of all containers. AppProbes runs application
// probes that were rewritten to point at the gate. Package check implements a single
// check.
//
// The package does not log. It calls OnChange once per change of state.
package probe
