// Package probe decides whether traffic may come to a pod: it reads the
// containers' readiness probes as Kubernetes writes them, probes each container
// in the background, and gives every caller the result from that one state.
//
// It promises:
//
//   - At most one probe of a container is under way at any time, however many
//     callers there are. With periodSeconds > 0 the application sees at most
//     one probe per period once it is ready.
//   - A container that starts to listen is noticed within the budget that
//     history.delay states, and all callers that are held are released at once.
//   - An adaptive result (periodSeconds 0 or absent) never rests on evidence
//     older than Options.Freshness.
//   - A container that stops listening makes the pod not ready with the first
//     refused connection, the package's own or one that Observed reports.
//   - Every failure has a Cause that is short and safe to show.
//
// The flow: ParseSpec reads the specs; New makes a container for each; Run
// starts one goroutine per container, which asks its history when the next
// attempt is due, runs its Prober and folds the outcome into its state. Try
// and Wait read the states of all containers, and Wait waits where the contract
// says so. AppProbes runs application probes that were rewritten to point at
// the gate. One attempt of a probe is pkg/probe/check.
//
// The package logs nothing: OnChange is called once per change of state.
package probe
