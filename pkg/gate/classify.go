package gate

// Kind is the classification of a request.
type Kind uint8

// The kinds. Probes are answered by the gate: only Traffic is counted, queued, traced and
// forwarded.
const (
	Traffic        Kind = iota
	ReadinessProbe      // asks whether the container is ready
	NetworkProbe        // asks whether the gate is reachable; the reply repeats the hash
	BadProbe            // sent by a known prober, with another value of K-Network-Probe or none
	HashlessProbe       // a network probe without a hash
)

// ProbeHeaders are the fields that distinguish probes from traffic. Each holds the first
// value of its field without surrounding white space; nil = absent.
type ProbeHeaders struct {
	UserAgent    []byte // User-Agent
	NetworkProbe []byte // K-Network-Probe
	NetworkHash  []byte // K-Network-Hash
}

// Classify returns the kind of a request and the prober that sent it. The comparison of
// values and prefixes is case-sensitive. Path, method and host do not matter.
func Classify(h ProbeHeaders) (Kind, Prober) {
	if h.UserAgent == nil && h.NetworkProbe == nil {
		return Traffic, AnyProber
	}
	caller := ProberOf(h.UserAgent)
	switch {
	case string(h.NetworkProbe) == "queue":
		return ReadinessProbe, caller
	case caller != AnyProber:
		return BadProbe, caller
	case string(h.NetworkProbe) != "probe":
		return Traffic, caller
	case len(h.NetworkHash) == 0:
		return HashlessProbe, caller
	}
	return NetworkProbe, caller
}

// ProberOf recognizes the platform's probers by the prefix of their user agent.
func ProberOf(userAgent []byte) Prober {
	switch {
	case hasPrefix(userAgent, "kube-probe/"):
		return Kubelet
	case hasPrefix(userAgent, "Knative-Activator-Probe"), hasPrefix(userAgent, "Knative-Autoscaling-Probe"):
		return Platform
	}
	return AnyProber
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}
