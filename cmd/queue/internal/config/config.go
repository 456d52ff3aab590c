// Package config is the configuration of the gate: one table of settings, which defines
// flags, variables, help, checks and the documentation.
//
// A setting is a row of that table (table.go): its names, flag, default, kind, field
// and help. Load looks up its text and field.set parses it by its kind.
package config

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// Config holds every setting of the gate. Load returns it validated; afterwards it is
// read-only. The function table describes each setting; the comments here describe only
// zero values and derived fields.
type Config struct {
	Gate     exchange.Config
	TLS      tlsfront.Config
	Tracing  tracing.Config
	OTel     OTel
	Identity metrics.Identity // Pod defaults to the host name

	// ListenAddress is the address of all ports without a separate address setting; ""
	// = all addresses, IPv4 and IPv6.
	ListenAddress  string
	ServingPort    int
	ServingTLSPort int // 0 = off; listens only if TLS.Dir holds a certificate
	UserPort       int // AutoPort = detected when the application listens
	Threads        int // 0 = automatic
	UncountedPaths []string
	Concurrency    Concurrency // copied to Gate by finish

	UpstreamProtocol      string // auto, http1 or h2c
	HTTP2MaxHeaderList    int64  // octets of a request head over HTTP/2, after decoding
	UpstreamTLS           bool
	UpstreamTLSCA         string // path; "" = RootCA or, if that is "", the system's CAs
	UpstreamTLSServerName string // "" = localhost
	UpstreamTLSInsecure   bool
	RootCA                string

	// DrainSocket is an absolute path, or "@name" for an abstract socket. net.Listen
	// and net.Dial accept both forms.
	DrainSocket string

	// ReadinessProbe is the JSON of a probe or an array of probes in the format of
	// pkg/probe; "" = none.
	ReadinessProbe       string
	MultiContainerProbes bool
	ContainerNames       []string
	ReadinessWait        time.Duration // 0 = probers do not wait
	ReadinessFreshness   time.Duration // above 0
	ReadinessRoom        time.Duration // 0 = off

	EngineMetrics       string // URL; "" = off
	EngineMetricsPeriod time.Duration
	EngineMaxWaiting    int
	EngineMaxKV         float64

	AppProbers   string // a JSON object; "" = none
	AppProbeHost string
	AppProbePort int // 0 = on the admin port only

	// SidePorts is the first of consecutive ports for the side listeners (TLS, admin
	// and others). 0 means that SIDE_PORTS is not set, and sidePortsOff that it is off.
	SidePorts             int
	AdminPort             int // 0 = off
	AutoscalerMetricsPort int // 0 = off
	MetricsPort           int // 0 = off; listens only if MetricsBackend is "prometheus"
	// MetricsAddress is the address of MetricsPort: the host in OBSERVABILITY_CONFIG's
	// requestMetrics endpoint, otherwise ListenAddress.
	MetricsAddress        string
	MetricsBackend        string // "none", "prometheus", "grpc" or "http/protobuf"
	MetricsCollector      string // destination of the backends that push
	MetricsExportInterval time.Duration
	MetricsNames          string // "current", "legacy" or "both"
	StatusPort            int    // 0 = off; on 127.0.0.1 only
	Profiling             bool
	ProfilingPort         int    // 0 = off; listens only if Profiling is set
	ProfilingAddress      string // defaults to ListenAddress

	RequestLog         bool
	RequestLogTemplate string // "" = the default line; syntax and function names are checked
	RequestLogProbes   bool

	// LoggingConfig is a zap configuration in JSON; "" = the default. An encoding or
	// encoder in it may also be "", for its default.
	LoggingConfig string
	LogLevel      string // one of logLevels; defaults to the level of LoggingConfig

	// Application is the command line that the gate starts; nil = none.
	Application []string
	StopTimeout time.Duration // 0 = the application is never killed
	IdleStop    time.Duration // 0 = the application does not sleep when it is idle
	// IdleFreeze freezes the idle application instead of stopping it. It needs
	// IdleStop, and has no effect if IdleHook is set.
	IdleFreeze bool
	// IdleHook is the URL that the gate calls instead of stopping the idle application;
	// "" = none. It needs IdleStop and WakeHook.
	IdleHook string
	WakeHook string
	// IdleWakeByProbes lets readiness probes wake the application.
	IdleWakeByProbes bool
	Subject          string // command of the help; "" = the gate
	Probe            Probe
	Background       bool // start the gate of `queue upgrade` in the background

	AnnotationsFile string
	SettingsFile    string   // "" = none
	SettingsAllow   []string // flags; empty = all live settings

	Preset string // "" = none

	PodIP   string
	Knative bool // one of knativeVariables is set, possibly to ""

	observability string // text of OBSERVABILITY_CONFIG
	ignored       struct {
		fullDuplex, http2AutoDetection bool
		podName, hostIP                string
		systemNamespace                string
	}
	settings []setting // the table, bound to this Config
	inputs   inputs    // arguments of Load; Live evaluates these arguments again
}

// IsSet reports whether a flag, a variable or PRESET sets the named setting, even to its
// default value. It panics if there is no such setting.
func (c *Config) IsSet(name string) bool { return c.setting(name).source != fromDefault }

func (c *Config) setting(name string) *setting {
	for i := range c.settings {
		if c.settings[i].name == name {
			return &c.settings[i]
		}
	}
	panic("BUG: no setting " + name)
}

// source is the origin of a setting's value.
type source uint8

const (
	fromDefault source = iota
	fromPreset
	fromEnvironment
	fromFlag
	fromFile // SETTINGS_FILE
	fromAnnotation
)

func (s source) String() string {
	return [...]string{"default", "preset", "environment", "flag", "file", "annotation"}[s]
}
