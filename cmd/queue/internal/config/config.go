// Package config is the configuration of the gate: one table of settings, from
// which flags and variables are read, and help, checks and the documentation
// are made.
package config

import "time"

// Config holds every setting of the gate. Load makes it, whole and validated, before anything listens; it is read-only after.
// Comments here say what a zero means and what is derived; the settings themselves are described in the table of settings.
type Config struct {
	// ListenAddress is where all ports listen that have no address of their own; "" means all addresses, IPv4 and IPv6.
	ListenAddress  string
	ServingPort    int
	ServingTLSPort int // 0 = off; listens only if CertDir holds a certificate
	UserPort       int
	Threads        int // 0 = automatic

	ConcurrencyLimit int // 0 = unlimited
	ConcurrencyHard  bool
	QueueCapacity    int           // never derived later: the default of ten times the limit is worked out
	QueueMaxWait     time.Duration // 0 = no bound of its own
	UncountedPaths   []string

	// The clocks; all but RequestTimeout may be 0 = off. No duration of Config is above longestDuration.
	RequestTimeout       time.Duration
	ResponseStartTimeout time.Duration
	IdleTimeout          time.Duration
	TunnelMax            time.Duration

	UpstreamWait        time.Duration // 0 = a request does not wait for the container to listen
	UpstreamRestartWait time.Duration // likewise
	ClientHalfClose     string        // "close" or "answer"
	UpstreamProtocol    string        // auto, http1 or h2c
	HTTP2AutoDetection  bool          // accepted; UPSTREAM_PROTOCOL decides

	UpstreamTLS           string // "true" or "off"
	UpstreamTLSCA         string // "" = RootCA, and without it the system's
	UpstreamTLSServerName string // "" = localhost
	UpstreamTLSInsecure   bool

	HTTPFullDuplex bool // accepted; the gate always works in full duplex

	DrainQuiet  time.Duration // 0 = the drain ends at once when nothing is open
	DrainTunnel time.Duration // 0 = tunnels are cut when the listeners close
	// DrainSocket is an absolute path, or "@name" for an abstract socket. net.Listen and net.Dial take both forms as they are.
	DrainSocket string

	// ReadinessProbe is the JSON of one probe or of an array of probes, "" for none. It is well-formed, has a handler in each
	// probe and no exec; pkg/probe checks the rest.
	ReadinessProbe       string
	MultiContainerProbes bool
	ContainerNames       []string
	ReadinessWait        time.Duration // 0 = askers are answered at once
	ReadinessFreshness   time.Duration // above 0

	// KubeAppProbers and IstioKubeAppProbers are JSON objects, "" for none; AppProbers chooses between them.
	KubeAppProbers      string
	IstioKubeAppProbers string
	AppProbeHost        string
	AppProbePort        int // 0 = on the admin port only

	AdminPort             int // 0 = off
	AutoscalerMetricsPort int // 0 = off
	MetricsPort           int // 0 = off; listens only if MetricsBackend is "prometheus"
	// MetricsAddress is where MetricsPort listens: the host in OBSERVABILITY_CONFIG's requestMetrics endpoint, else ListenAddress.
	MetricsAddress        string
	MetricsBackend        string // "none", "prometheus", "grpc", "http/protobuf" or "opencensus"
	MetricsCollector      string // where the backends that push send to
	MetricsExportInterval time.Duration
	MetricsNames          string // "current", "legacy" or "both"
	ObservabilityConfig   string // as given; all that the gate uses of it is in the fields here
	StatusPort            int    // 0 = off; on 127.0.0.1 only
	Profiling             bool
	ProfilingPort         int    // 0 = off; listens only if Profiling
	ProfilingAddress      string // ListenAddress unless set

	TracingProtocol   string // "none", "zipkin", "grpc", "http/protobuf" or "stdout"
	TracingEndpoint   string
	TracingSampleRate float64 // 0 to 1
	TracingDebug      bool    // sample everything

	RequestLog         bool
	RequestLogTemplate string // "" = the default line; syntax and function names are checked
	RequestLogProbes   bool

	LoggingConfig string // zap's JSON, "" for the default; an absent or empty encoding or encoder is the default one
	LogLevel      string // "debug", "info", "warn", "error", "dpanic", "panic" or "fatal": what LoggingConfig says unless set

	CertDir             string
	TLSMinVersion       string   // "", "1.2" or "1.3"
	TLSMaxVersion       string   // likewise
	TLSCipherSuites     []string // names as crypto/tls spells them
	TLSCurvePreferences []string // likewise: CurveP256, never P-256
	TLSClientCA         string   // "" = clients need no certificate
	TLSClientSANs       []string // none = any certificate that TLSClientCA signed
	TLSOnly             bool
	RootCA              string

	Namespace       string
	Configuration   string
	Revision        string
	Service         string
	Pod             string // the host name unless set
	PodIP           string
	PodName         string
	HostIP          string
	SystemNamespace string

	origins []origin // by index of the table of settings
}

// AppProbers returns the JSON map of rewritten application probes, "" for none. KUBE_APP_PROBERS wins over ISTIO_KUBE_APP_PROBERS.
func (c *Config) AppProbers() string {
	if c.KubeAppProbers != "" {
		return c.KubeAppProbers
	}
	return c.IstioKubeAppProbers
}

// Given reports whether the setting of that environment name was set by a flag or by the environment, directly or through
// OBSERVABILITY_CONFIG or SERVING_LOGGING_CONFIG. It panics if there is no such setting.
func (c *Config) Given(env string) bool {
	return c.origins[settingIndex(env)] != originDefault
}

// origin says where the value of a setting comes from.
type origin uint8

const (
	originDefault origin = iota
	originEnvironment
	originFlag
)

func (o origin) String() string {
	switch o {
	case originFlag:
		return "flag"
	case originEnvironment:
		return "environment"
	default:
		return "default"
	}
}
