package config

import (
	"crypto/fips140"
	"crypto/tls"
	"net/netip"
	"strings"

	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
)

// checkCombinations reports valid values that cannot be combined.
func (l *loader) checkCombinations() {
	if strings.Trim(l.ReadinessProbe, " \t\r\n[]") == "" && l.ReadinessProbe != "" && !l.MultiContainerProbes {
		l.problem("SERVING_READINESS_PROBE", "SERVING_READINESS_PROBE=%s: want one probe at least, unless ENABLE_MULTI_CONTAINER_PROBES is true",
			quoteShort(l.ReadinessProbe))
	}
	if l.UserPort == AutoPort && l.Application == nil && l.isValid("USER_PORT") {
		l.problem("USER_PORT", "USER_PORT=auto: want a port number, or an application to start (queue --user-port auto -- COMMAND)")
	}
	l.checkIdle()
	traces, metrics := l.Exporters()
	switch traces {
	case "zipkin":
		if !isURL(l.Tracing.Endpoint) {
			l.problem("TRACING_CONFIG_ZIPKIN_ENDPOINT", "TRACING_CONFIG_ZIPKIN_ENDPOINT=%q: want a URL (http or https) for traces to zipkin", l.Tracing.Endpoint)
		}
	case "grpc", "http/protobuf":
		if l.Tracing.Endpoint == "" && l.OTel.Traces.Endpoint == "" && l.OTel.Shared.Endpoint == "" {
			l.problem("TRACING_CONFIG_ZIPKIN_ENDPOINT", "TRACING_CONFIG_ZIPKIN_ENDPOINT=\"\": want a URL or host:port for traces over %s, or OTEL_EXPORTER_OTLP_ENDPOINT", l.Tracing.Protocol)
		}
	}
	if isOTLP(metrics) && l.MetricsCollector == "" && l.OTel.Metrics.Endpoint == "" && l.OTel.Shared.Endpoint == "" {
		l.problem("METRICS_COLLECTOR_ADDRESS", "METRICS_COLLECTOR_ADDRESS=\"\": want a URL or host:port for metrics over %s, or OTEL_EXPORTER_OTLP_ENDPOINT", l.MetricsBackend)
	}
	l.checkProtocol("traces", "TRACING_CONFIG_BACKEND", traces, "TRACES_")
	l.checkProtocol("metrics", "SERVING_REQUEST_METRICS_BACKEND", metrics, "METRICS_")
	l.checkClient("", &l.OTel.Shared)
	l.checkClient("TRACES_", &l.OTel.Traces)
	l.checkClient("METRICS_", &l.OTel.Metrics)
	l.checkSampler()
	if isOTLP(traces) {
		l.checkScheme("TRACING_CONFIG_ZIPKIN_ENDPOINT", &l.OTel.Traces)
	}
	if isOTLP(metrics) {
		l.checkScheme("METRICS_COLLECTOR_ADDRESS", &l.OTel.Metrics)
	}
	l.checkCost()
	if evict := l.Gate.Overload.Evict; evict.Set() && !l.Gate.Overload.PriorityBy.Set() && l.isValid("QUEUE_PRIORITY_BY") {
		l.problem("QUEUE_EVICT", "QUEUE_EVICT=%s: want QUEUE_PRIORITY_BY as well", evict)
	}
	for _, name := range []string{"READINESS_ROOM", "ENGINE_METRICS_PERIOD", "ENGINE_MAX_WAITING", "ENGINE_MAX_KV"} {
		if l.EngineMetrics == "" && l.IsSet(name) && l.isValid("ENGINE_METRICS") {
			l.warn("%s has no effect without ENGINE_METRICS", name)
		}
	}
	l.checkTemplate()
	l.checkLive()
	l.checkTLS()
}

func (l *loader) checkIdle() {
	hooks := l.IdleHook != "" || l.WakeHook != ""
	if l.IdleStop > 0 && l.Application == nil && !hooks && l.isValid("IDLE_HOOK") && l.isValid("WAKE_HOOK") {
		l.problem("IDLE_STOP", "IDLE_STOP=%s: want an application to start (queue --idle-stop %[1]s -- COMMAND), or IDLE_HOOK and WAKE_HOOK", l.IdleStop)
	}
	if l.IdleStop > 0 && l.Application != nil && l.UserPort == AutoPort && !hooks && !l.IdleFreeze {
		l.problem("IDLE_STOP", "IDLE_STOP=%s: want a port number in USER_PORT, because the application may listen on another port after each start, or IDLE_FREEZE=true", l.IdleStop)
	}
	if l.IdleStop == 0 && l.isValid("IDLE_STOP") {
		if l.IdleFreeze {
			l.problem("IDLE_FREEZE", "IDLE_FREEZE=true: want IDLE_STOP as well")
		}
		if hooks {
			l.problem("IDLE_HOOK", "IDLE_HOOK=%s: want IDLE_STOP as well", quoteShort(l.IdleHook))
		}
		if l.IdleWakeByProbes {
			l.warn("IDLE_WAKE_BY_PROBES has no effect without IDLE_STOP")
		}
		return
	}
	if l.IdleFreeze && l.IdleHook != "" {
		l.warn("IDLE_FREEZE has no effect with IDLE_HOOK")
	}
	switch {
	case l.IdleHook == "" && l.WakeHook != "" && l.isValid("IDLE_HOOK"):
		l.problem("WAKE_HOOK", "WAKE_HOOK=%s: want IDLE_HOOK as well", quoteShort(l.WakeHook))
	case l.IdleHook != "" && l.WakeHook == "" && l.isValid("WAKE_HOOK"):
		l.problem("IDLE_HOOK", "IDLE_HOOK=%s: want WAKE_HOOK as well", quoteShort(l.IdleHook))
	}
}

func (l *loader) checkCost() {
	costBy, limit := l.Gate.Overload.CostBy, l.Gate.Overload.CostLimit
	switch {
	case costBy.Set() && limit == 0 && l.isValid("QUEUE_COST_LIMIT"):
		l.problem("QUEUE_COST_BY", "QUEUE_COST_BY=%s: want QUEUE_COST_LIMIT as well", quoteShort(costBy.String()))
	case !costBy.Set() && limit > 0 && l.isValid("QUEUE_COST_BY"):
		l.problem("QUEUE_COST_LIMIT", "QUEUE_COST_LIMIT=%d: want QUEUE_COST_BY as well", limit)
	}
}

// checkTemplate accepts an invalid template while the request log is off, because
// Knative passes the cluster's template to every pod.
func (l *loader) checkTemplate() {
	err := requestlog.Check(l.RequestLogTemplate)
	if err == nil {
		return
	}
	s := l.setting("SERVING_REQUEST_LOG_TEMPLATE")
	err = s.wantError(l.RequestLogTemplate, err)
	if l.RequestLog {
		l.problem(s.name, "%w", err)
		return
	}
	l.warn("%v (ignored while the request log is off)", err)
	l.RequestLogTemplate = ""
}

func (l *loader) checkTLS() {
	if len(l.TLS.ClientSANs) > 0 && l.TLS.ClientCA == "" && l.isValid("TLS_CLIENT_CA") {
		l.problem("TLS_CLIENT_SANS", "TLS_CLIENT_SANS=%s: want TLS_CLIENT_CA as well, else anybody could sign these names",
			quoteShort(strings.Join(l.TLS.ClientSANs, ",")))
	}
	if l.Gate.TLSOnly && l.ServingTLSPort == 0 && l.isValid("QUEUE_SERVING_TLS_PORT") {
		l.problem("TLS_ONLY", "TLS_ONLY=true: want a port in QUEUE_SERVING_TLS_PORT")
	}
	if l.UpstreamTLS && l.UpstreamTLSCA == "" && l.RootCA == "" && l.UpstreamTLSServerName == "" && !l.UpstreamTLSInsecure &&
		l.isValid("UPSTREAM_TLS_CA") && l.isValid("UPSTREAM_TLS_SERVER_NAME") && l.isValid("UPSTREAM_TLS_INSECURE") {
		l.problem("UPSTREAM_TLS", "UPSTREAM_TLS=true: want UPSTREAM_TLS_CA, UPSTREAM_TLS_SERVER_NAME or UPSTREAM_TLS_INSECURE, to know how the container is verified")
	}
	if fips140.Enabled() {
		refuseUnapproved(l, "QUEUE_PROXY_TLS_CIPHER_SUITES", cipherSuites, l.TLS.CipherSuites, tlsfront.ApprovedCipherSuite)
		refuseUnapproved(l, "QUEUE_PROXY_TLS_CURVE_PREFERENCES", curves, l.TLS.Curves, tlsfront.ApprovedCurve)
	}
	if l.TLS.MinVersion == tls.VersionTLS13 && l.TLS.MaxVersion == tls.VersionTLS12 {
		l.problem("QUEUE_PROXY_TLS_MAX_VERSION", "QUEUE_PROXY_TLS_MAX_VERSION=\"1.2\": want a version not below QUEUE_PROXY_TLS_MIN_VERSION=\"1.3\"")
	}
}

// refuseUnapproved reports values that crypto/tls would ignore in FIPS 140-3 mode.
func refuseUnapproved[T any](l *loader, name string, k *kind[[]T], values []T, approved func(T) bool) {
	var unapproved []T
	for _, v := range values {
		if !approved(v) {
			unapproved = append(unapproved, v)
		}
	}
	if len(unapproved) > 0 {
		l.problem(name, "%s=%s: want values that FIPS 140-3 approves, because this gate runs in FIPS 140-3 mode; not approved: %s",
			name, quoteShort(k.format(values)), k.format(unapproved))
	}
}

func (l *loader) isValid(name string) bool { return len(l.setting(name).problems) == 0 }

// portUse is a port on which something listens in the pod.
type portUse struct {
	name    string
	address string // "" means all
	port    int
}

// portsInUse lists the ports in use with this configuration: the container's port
// first, ports that may be turned off last.
func (c *Config) portsInUse() []portUse {
	metrics, profiling := c.MetricsPort, c.ProfilingPort
	if c.MetricsBackend != "prometheus" {
		metrics = 0
	}
	if !c.Profiling {
		profiling = 0
	}
	return []portUse{
		{"USER_PORT", "127.0.0.1", c.UserPort},
		{"QUEUE_SERVING_PORT", c.ListenAddress, c.ServingPort},
		{"ADMIN_PORT", c.ListenAddress, c.AdminPort},
		{"APP_PROBE_PORT", c.ListenAddress, c.AppProbePort},
		{"AUTOSCALER_METRICS_PORT", c.ListenAddress, c.AutoscalerMetricsPort},
		{"METRICS_PORT", c.MetricsAddress, metrics},
		{"PROFILING_PORT", c.ProfilingAddress, profiling},
		{"QUEUE_SERVING_TLS_PORT", c.ListenAddress, c.ServingTLSPort},
		{"STATUS_PORT", "127.0.0.1", c.StatusPort},
	}
}

// checkPorts reports listeners that would share a port. Knative allows containers to
// use 8112 and 8023, so the gate's listener on such a port is turned off.
func (l *loader) checkPorts() {
	var used []portUse
	for _, use := range l.portsInUse() {
		if use.port == 0 || !l.isValid(use.name) {
			continue
		}
		other := clash(used, use)
		switch {
		case other == nil:
			used = append(used, use)
		case !l.turnOff(use, other):
			l.problem(use.name, "%s=%d (%s): want a port other than that of %s (%s)", use.name, use.port,
				l.setting(use.name).source, other.name, l.setting(other.name).source)
		}
	}
}

func clash(used []portUse, use portUse) *portUse {
	for i := range used {
		if used[i].port == use.port && addressesOverlap(used[i].address, use.address) {
			return &used[i]
		}
	}
	return nil
}

// turnOff turns off a listener, because another one has its port. It does so for the
// status page and the TLS listener if their port is the default. It also does so for a
// TLS listener on 8112, the port that Knative always sets, if the container uses it.
// For any other listener it returns false.
func (l *loader) turnOff(use portUse, other *portUse) bool {
	switch {
	case use.name == "STATUS_PORT" && !l.IsSet(use.name):
		l.StatusPort = 0
	case use.name == "QUEUE_SERVING_TLS_PORT" && (!l.IsSet(use.name) || use.port == 8112 && other.name == "USER_PORT"):
		l.ServingTLSPort = 0
	default:
		return false
	}
	l.warn("%s=%d is off: %s has that port", use.name, use.port, other.name)
	return true
}

// addressesOverlap reports whether both addresses cannot listen on the same port. A
// host name may mean any address.
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
