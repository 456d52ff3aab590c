// Package probe decides whether traffic may come to a pod: it reads the
// containers' readiness probes as Kubernetes writes them, probes each container
// in the background, and answers everybody who asks from that one truth.
//
// It promises:
//
//   - At most one probe of a container is under way at any time, however many
//     ask. With periodSeconds > 0 the application sees at most one probe per
//     period once it is ready.
//   - A container that starts to listen is noticed within the budget that
//     Schedule states, and everybody who waits learns of it at once.
//   - An adaptive answer (periodSeconds 0 or absent) never rests on evidence
//     older than Options.Freshness.
//   - A container that stops listening makes the pod not ready with the first
//     refused connection, be it the package's own or one told by Observed.
//   - Every failure has a Cause that is short and safe to show.
//
// The flow: ParseSpec reads the specs; New makes a container for each; Run
// starts one goroutine per container, which asks its Schedule when the next
// attempt is due, runs its Prober and folds the outcome into its state. Ask
// reads the states of all containers and waits where the contract says so.
// AppProbes, which shares the probers, answers application probes that were
// rewritten to point at the gate.
//
// The package logs nothing: OnChange is called once per change of state.
package probe
