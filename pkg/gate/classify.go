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
func Classify(h ProbeHeaders) (Kind, Caller) {
	if h.UserAgent == nil && h.NetworkProbe == nil {
		return Traffic, AnyCaller
	}
	caller := CallerOf(h.UserAgent)
	switch {
	case string(h.NetworkProbe) == "queue":
		return ReadinessProbe, caller
	case caller != AnyCaller:
		return BadProbe, caller
	case string(h.NetworkProbe) != "probe":
		return Traffic, caller
	case len(h.NetworkHash) == 0:
		return HashlessProbe, caller
	}
	return NetworkProbe, caller
}

// CallerOf tells the platform's probers by the beginning of their user agent.
func CallerOf(userAgent []byte) Caller {
	switch {
	case hasPrefix(userAgent, "kube-probe/"):
		return Kubelet
	case hasPrefix(userAgent, "Knative-Activator-Probe"), hasPrefix(userAgent, "Knative-Autoscaling-Probe"):
		return Platform
	}
	return AnyCaller
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}
