package gate

import "net/netip"

// Prober is the sender of a probe. It determines how long a probe may wait for its
// result, and how much detail the reply shows.
type Prober uint8

// The probers.
const (
	AnyProber Prober = iota // any other sender, such as an ingress controller
	Kubelet                 // its probes time out after one second by default
	Platform                // Knative's activator or autoscaler

	Probers = iota
)

// ReadinessResult tells whether the gate accepts traffic.
type ReadinessResult struct {
	Ready  bool
	Reason string // short and safe in a header, such as "user-container: refused"; empty when ready
}

// ReasonFor returns the part of the reason that the prober may see. Names of containers,
// ports and causes are shown only to the platform's probers and to peers on loopback.
func (r ReadinessResult) ReasonFor(c Prober, peer netip.Addr) string {
	if r.Ready || c != AnyProber || peer.Unmap().IsLoopback() {
		return r.Reason
	}
	return "not ready"
}

// Readiness provides readiness results. Its methods may be called concurrently.
type Readiness interface {
	// Try returns the result if it is already known. If it is not, ok is false and the
	// caller must use Await.
	Try(Prober) (result ReadinessResult, ok bool)
	// Await calls notify once with the result, at the latest when the maximum wait of
	// this prober ends. The call may happen before Await returns, or later on any
	// goroutine. The wait occupies no goroutine. notify must not block and must not call
	// the Readiness. After cancel, notify is not called, unless a call has already begun.
	Await(c Prober, notify func(ReadinessResult)) (cancel func())
}

// ContainerState is the state of one checked container.
type ContainerState struct {
	Container string
	Probe     string // what is checked, such as "http 127.0.0.1:8080"
	State     string // unknown, down, failing or ready
	Ready     bool
	Reason    string // why the container is not ready; empty when ready
	Attempts  uint64 // number of checks since the start
	Reached   uint64 // number of checks whose connection was accepted
}
