// Package config is the configuration of the gate: one table of settings, from
// which flags and variables are read, and help, checks and the documentation
// are made.
//
// A setting is a row of that table (table.go): its names, flag, default, kind,
// field and help. Its way from the environment to its use: Load finds its text,
// field.set parses it as its kind says; then internal/app, or the package whose
// configuration it landed in, uses the field.
package config

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/tlsfront"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/tracing"
)

// Config holds every setting of the gate. Load makes it, whole and validated, before anything listens; it is read-only after.
// What a package takes as it is lands in that package's own configuration; internal/app adds parts and callbacks.
// The table describes the settings; comments here say what a zero means and what is derived.
type Config struct {
	Gate     exchange.Config
	TLS      tlsfront.Config
	Tracing  tracing.Config
	OTel     OTel
	Identity metrics.Identity // its Pod is the host name unless set

	// ListenAddress is where all ports listen that have no address of their own; "" means all addresses, IPv4 and IPv6.
	ListenAddress  string
	ServingPort    int
	ServingTLSPort int // 0 = off; listens only if TLS.Dir holds a certificate
	UserPort       int // AutoPort = found when the application listens
	Threads        int // 0 = automatic
	UncountedPaths []string
	Concurrency    Concurrency // lands in Gate

	UpstreamProtocol      string // auto, http1 or h2c
	HTTP2MaxHeaderList    int64  // octets of a request head over HTTP/2, after decoding
	UpstreamTLS           bool
	UpstreamTLSCA         string // "" = RootCA, and without it the system's
	UpstreamTLSServerName string // "" = localhost
	UpstreamTLSInsecure   bool
	RootCA                string

	// DrainSocket is an absolute path, or "@name" for an abstract socket. net.Listen and net.Dial take both forms as they are.
	DrainSocket string

	// ReadinessProbe is the JSON of one probe or of an array of probes, "" for none, that pkg/probe accepts.
	ReadinessProbe       string
	MultiContainerProbes bool
	ContainerNames       []string
	ReadinessWait        time.Duration // 0 = callers are not held
	ReadinessFreshness   time.Duration // above 0

	AppProbers   string // a JSON object, "" for none
	AppProbeHost string
	AppProbePort int // 0 = on the admin port only

	SidePorts             int // first of the row that the ports below moved to, 0 = they did not; sidePortsOff
	AdminPort             int // 0 = off
	AutoscalerMetricsPort int // 0 = off
	MetricsPort           int // 0 = off; listens only if MetricsBackend is "prometheus"
	// MetricsAddress is where MetricsPort listens: the host in OBSERVABILITY_CONFIG's requestMetrics endpoint, else ListenAddress.
	MetricsAddress        string
	MetricsBackend        string // "none", "prometheus", "grpc" or "http/protobuf"
	MetricsCollector      string // where the backends that push send to
	MetricsExportInterval time.Duration
	MetricsNames          string // "current", "legacy" or "both"
	StatusPort            int    // 0 = off; on 127.0.0.1 only
	Profiling             bool
	ProfilingPort         int    // 0 = off; listens only if Profiling
	ProfilingAddress      string // ListenAddress unless set

	RequestLog         bool
	RequestLogTemplate string // "" = the default line; syntax and function names are checked
	RequestLogProbes   bool

	LoggingConfig string // zap's JSON, "" for the default; an absent or empty encoding or encoder is the default one
	LogLevel      string // one of logLevels: what LoggingConfig says unless set

	// Application is the command that the gate starts, with its arguments; nil for none.
	Application []string
	StopTimeout time.Duration // 0 = the application is never killed
	Subject     string        // the command that help is about, "" for the gate
	Probe       Probe

	AnnotationsFile string
	SettingsFile    string   // "" = none
	SettingsAllow   []string // flags; empty = all live settings

	PodIP   string
	Knative bool // some SERVING_* variable is there, be it empty

	observability string // OBSERVABILITY_CONFIG as given; what the gate uses of it is in the fields here
	ignored       struct {
		fullDuplex, http2AutoDetection bool
		podName, hostIP                string
		systemNamespace                string
	}
	settings []setting // the table, bound to this Config
	inputs   inputs    // arguments of Load, for Live
}

// Given reports whether the setting of that name was set by a flag or by the environment, directly or through
// OBSERVABILITY_CONFIG or SERVING_LOGGING_CONFIG. It panics if there is no such setting.
func (c *Config) Given(name string) bool { return c.setting(name).source != fromDefault }

func (c *Config) setting(name string) *setting {
	for i := range c.settings {
		if c.settings[i].name == name {
			return &c.settings[i]
		}
	}
	panic("BUG: no setting " + name)
}

// source says where the value of a setting comes from.
type source uint8

const (
	fromDefault source = iota
	fromEnvironment
	fromFlag
	fromFile // SETTINGS_FILE
	fromAnnotation
)

func (s source) String() string {
	return [...]string{"default", "environment", "flag", "file", "annotation"}[s]
}
