package gate

import "net/netip"

// Prober is who sends a probe. How long it waits for the result and how much of
// it is shown depend on that.
type Prober uint8

// The callers.
const (
	AnyProber Prober = iota // none of the below; ingress controllers are such
	Kubelet                 // gives up after a second
	Platform                // Knative's activator or autoscaler

	Probers = iota
)

// ReadinessResult says whether traffic may come here.
type ReadinessResult struct {
	Ready  bool
	Reason string // why not, short and safe in a header: "user-container: refused"; empty when ready
}

// ReasonFor is the reason as far as it is the caller's business: names of
// containers, ports and causes are for the platform's probers, and for callers
// within the pod. peer is where the caller is.
func (r ReadinessResult) ReasonFor(c Prober, peer netip.Addr) string {
	if r.Ready || c != AnyProber || peer.Unmap().IsLoopback() {
		return r.Reason
	}
	return "not ready"
}

// Readiness decides whether traffic may come here. Its methods may be called
// from several goroutines at once.
type Readiness interface {
	// Try returns the result if it is known without a wait; ok is false if only
	// Await can tell.
	Try(Prober) (result ReadinessResult, ok bool)
	// Await calls notify once with the result, at the latest when this caller's
	// maximum wait ends. notify may be called before Await returns, or later on any
	// goroutine; waiting takes no goroutine. notify must not block and must not
	// call the Readiness. After cancel it is not called, unless a call has already
	// begun.
	Await(c Prober, notify func(ReadinessResult)) (cancel func())
}

// ContainerState is what can be seen of one probed container at one moment.
type ContainerState struct {
	Container string
	Probe     string // what is probed, and how: "http 127.0.0.1:8080"
	State     string // unknown, down, failing or ready
	Ready     bool
	Reason    string // why not, in words; empty when ready
	Attempts  uint64 // probes since the start
	Reached   uint64 // those of them that a connection was accepted for
}
