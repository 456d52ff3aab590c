package gate

import "net/netip"

// Prober is the sender of a probe. It determines how long a probe may wait for its
// result, and how much detail the reply shows.
type Prober uint8

// The probers.
const (
	AnyProber Prober = iota // none of the below, such as ingress controllers
	Kubelet                 // waits one second by default
	Platform                // Knative's activator or autoscaler

	Probers = iota
)

// ReadinessResult tells whether the gate accepts traffic.
type ReadinessResult struct {
	Ready  bool
	Reason string // short and safe in a header, such as "user-container: refused"; empty when ready
}

// ReasonFor returns the reason as far as the prober may see it: names of containers,
// ports and causes only for the platform's probers and for peers on loopback.
func (r ReadinessResult) ReasonFor(c Prober, peer netip.Addr) string {
	if r.Ready || c != AnyProber || peer.Unmap().IsLoopback() {
		return r.Reason
	}
	return "not ready"
}

// Readiness provides readiness results. Its methods may be called concurrently.
type Readiness interface {
	// Try returns the result if it is known already; otherwise ok is false and Await
	// must be used.
	Try(Prober) (result ReadinessResult, ok bool)
	// Await calls notify once with the result, at the latest when this prober's maximum
	// wait ends. notify may be called before Await returns, or later on any goroutine;
	// waiting uses no goroutine. notify must not block and must not call the Readiness.
	// After cancel it is not called, unless a call has already begun.
	Await(c Prober, notify func(ReadinessResult)) (cancel func())
}

// ContainerState is the state of one checked container.
type ContainerState struct {
	Container string
	Probe     string // what is checked, such as "http 127.0.0.1:8080"
	State     string // unknown, down, failing or ready
	Ready     bool
	Reason    string // empty when ready
	Attempts  uint64 // checks since the start
	Reached   uint64 // checks for which a connection was accepted
}
