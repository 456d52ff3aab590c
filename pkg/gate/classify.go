package gate

// Kind is the classification of a request.
type Kind uint8

// The kinds. Only Traffic is counted, queued, traced and forwarded.
const (
	Traffic        Kind = iota
	ReadinessProbe      // asks whether the container is ready
	NetworkProbe        // asks whether the gate is reachable; the reply repeats the hash
	BadProbe            // from a platform prober, with an unknown value
	HashlessProbe       // a network probe without a hash
)

// ProbeHeaders are the fields that distinguish probes from traffic: the first value of
// each, trimmed; nil = absent.
type ProbeHeaders struct {
	UserAgent    []byte // User-Agent
	NetworkProbe []byte // K-Network-Probe
	NetworkHash  []byte // K-Network-Hash
}

// Classify returns the kind of a request and its prober. Values and prefixes are
// case-sensitive. Path, method and host are ignored.
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
