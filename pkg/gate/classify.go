package gate

// Kind is what a request is to the gate.
type Kind uint8

// The kinds of CONTRACT "probes": only Traffic is counted, queued, traced and
// forwarded.
const (
	Traffic        Kind = iota
	ReadinessProbe      // asks whether the container is ready
	NetworkProbe        // asks whether this gate is reachable; echoes the hash
	BadProbe            // a platform's prober with a value nobody knows
	HashlessProbe       // a network probe without its hash
)

// Asker tells who asks for readiness, because patience differs.
type Asker uint8

// The askers of readiness.
const (
	OtherAsker Asker = iota
	Kubelet          // gives up after a second
)

// ProbeHeaders are the fields that tell probes from traffic: of each field the
// first value, without surrounding white space; nil when absent.
type ProbeHeaders struct {
	UserAgent    []byte // User-Agent
	NetworkProbe []byte // K-Network-Probe
	NetworkHash  []byte // K-Network-Hash
}

// Classify names a request. Values and prefixes are case-sensitive. The path,
// the method and the host play no part.
func Classify(h ProbeHeaders) (Kind, Asker) {
	if h.UserAgent == nil && h.NetworkProbe == nil {
		return Traffic, OtherAsker
	}
	kubelet := hasPrefix(h.UserAgent, "kube-probe/")
	asker := OtherAsker
	if kubelet {
		asker = Kubelet
	}
	if string(h.NetworkProbe) == "queue" {
		return ReadinessProbe, asker
	}
	if kubelet || hasPrefix(h.UserAgent, "Knative-Activator-Probe") || hasPrefix(h.UserAgent, "Knative-Autoscaling-Probe") {
		return BadProbe, asker
	}
	if string(h.NetworkProbe) == "probe" {
		if len(h.NetworkHash) == 0 {
			return HashlessProbe, asker
		}
		return NetworkProbe, asker
	}
	return Traffic, asker
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}
