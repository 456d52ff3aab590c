package sockets

import "strings"

// Port is a port of the gate that may listen on an inherited socket.
type Port struct {
	Name    string // name of the port's socket in LISTEN_FDNAMES and in systemd's store
	Setting string
	isUnix  bool
}

// ports lists all ports. The position of an inherited socket without a name selects its
// port in this list.
var ports = []Port{
	{"serving", "QUEUE_SERVING_PORT", false},
	{"tls", "QUEUE_SERVING_TLS_PORT", false},
	{"admin", "ADMIN_PORT", false},
	{"metrics", "METRICS_PORT", false},
	{"autoscaler", "AUTOSCALER_METRICS_PORT", false},
	{"status", "STATUS_PORT", false},
	{"profiling", "PROFILING_PORT", false},
	{"app-probes", "APP_PROBE_PORT", false},
	{"drain", "DRAIN_SOCKET", true},
}

// Names of ports that other packages use.
const (
	Serving = "serving"
	TLS     = "tls"
	Drain   = "drain"
)

func portNamed(name string) *Port {
	for i := range ports {
		if ports[i].Name == name {
			return &ports[i]
		}
	}
	return nil
}

func portOf(setting string) *Port {
	for i := range ports {
		if ports[i].Setting == setting {
			return &ports[i]
		}
	}
	panic("BUG: no socket has the setting " + setting)
}

// allNames lists the names of all ports.
func allNames() string {
	var all []string
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}
