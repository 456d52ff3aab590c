package gate

// Kind is what a request is to the gate.
type Kind uint8

// The kinds of CONTRACT "probes": only Traffic is counted, queued, traced and
// forwarded.
const (
	Traffic        Kind = iota
	ReadinessProbe      // asks whether the container is ready
	NetworkProbe        // asks whether this gate is reachable; echoes the hash
	BadProbe            // a platform's prober with an unknown value
	HashlessProbe       // a network probe without its hash
)

// ProbeHeaders are the fields that tell probes from traffic: of each field the
// first value, without surrounding white space; nil when absent.
type ProbeHeaders struct {
	UserAgent    []byte // User-Agent
	NetworkProbe []byte // K-Network-Probe
	NetworkHash  []byte // K-Network-Hash
}

// Classify names a request and who sends it. Values and prefixes are
// case-sensitive. The path, the method and the host play no part.
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

// ProberOf tells the platform's probers by the beginning of their user agent.
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
