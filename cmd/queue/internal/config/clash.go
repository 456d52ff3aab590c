package config

import (
	"fmt"
	"net/netip"
)

// portUse is a port on which something listens in the pod.
type portUse struct {
	env     string
	address string // "" means all
	port    int
}

// portsInUse lists what listens with this configuration, the container first.
func (c *Config) portsInUse() []portUse {
	uses := []portUse{
		{"USER_PORT", "127.0.0.1", c.UserPort},
		{"QUEUE_SERVING_PORT", c.ListenAddress, c.ServingPort},
		{"ADMIN_PORT", c.ListenAddress, c.AdminPort},
		{"APP_PROBE_PORT", c.ListenAddress, c.AppProbePort},
		{"AUTOSCALER_METRICS_PORT", c.ListenAddress, c.AutoscalerMetricsPort},
	}
	if c.MetricsBackend == "prometheus" {
		uses = append(uses, portUse{"METRICS_PORT", c.MetricsAddress, c.MetricsPort})
	}
	if c.Profiling {
		uses = append(uses, portUse{"PROFILING_PORT", c.ProfilingAddress, c.ProfilingPort})
	}
	// Those that may give way come last, so that the others are settled when their turn comes.
	return append(uses,
		portUse{"QUEUE_SERVING_TLS_PORT", c.ListenAddress, c.ServingTLSPort},
		portUse{"STATUS_PORT", "127.0.0.1", c.StatusPort})
}

// checkClashes reports every two that would listen on the same port. Knative lets containers have 8112 and 8023, so there the
// gate's own listener gives way instead.
func (l *loading) checkClashes() {
	var settled []portUse
	for _, use := range l.cfg.portsInUse() {
		if use.port == 0 || l.bad[settingIndex(use.env)] {
			continue
		}
		if other, ok := clashOf(settled, use); ok {
			if !l.giveWay(use, other) {
				l.problem(use.env, "%s=%d (%s): want a port other than that of %s (%s)", use.env, use.port,
					l.cfg.origins[settingIndex(use.env)], other.env, l.cfg.origins[settingIndex(other.env)])
			}
			continue
		}
		settled = append(settled, use)
	}
}

func clashOf(settled []portUse, use portUse) (portUse, bool) {
	for _, other := range settled {
		if other.port == use.port && addressesOverlap(other.address, use.address) {
			return other, true
		}
	}
	return portUse{}, false
}

// giveWay turns off a port that nobody chose: the status page's, or Knative's fixed one for TLS where the container has it.
func (l *loading) giveWay(use, other portUse) bool {
	switch {
	case use.env == "STATUS_PORT" && !l.cfg.Given(use.env):
		l.cfg.StatusPort = 0
	case use.env == "QUEUE_SERVING_TLS_PORT" && use.port == 8112 && other.env == "USER_PORT",
		use.env == "QUEUE_SERVING_TLS_PORT" && !l.cfg.Given(use.env):
		l.cfg.ServingTLSPort = 0
	default:
		return false
	}
	l.warnings = append(l.warnings, fmt.Sprintf("%s=%d is off: %s has that port", use.env, use.port, other.env))
	return true
}

// addressesOverlap reports whether listening on the same port of both addresses would fail. A name may mean any address.
func addressesOverlap(a, b string) bool {
	first, err1 := netip.ParseAddr(a)
	second, err2 := netip.ParseAddr(b)
	if err1 != nil || err2 != nil {
		return true
	}
	first, second = first.Unmap(), second.Unmap()
	if first == second {
		return true
	}
	// An IPv6 wildcard listens on IPv4 as well.
	wildcard := func(x, y netip.Addr) bool { return x.IsUnspecified() && (x.Is6() || y.Is4()) }
	return wildcard(first, second) || wildcard(second, first)
}
