package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// loader is the state of one Load.
type loader struct {
	*Config
	inputs
	overrides map[string]override // key: name of the setting
	command   Command
	subject   *command // nil: the gate
	problems  []error  // of the command line; those of a setting are stored with the setting
	warnings  []string
	links     []string // variables that are ignored, because their value is a service link
}

// inputs are the arguments of Load.
type inputs struct {
	args   []string
	lookup func(string) (string, bool)
	names  []string
}

// Load reads the configuration from args (without the program's name) and lookup
// (os.LookupEnv). names are the names of all variables, to find misspelt settings.
// Flags take precedence over the environment. An empty variable counts as unset; an
// empty flag selects the default.
//
// The error joins all problems, one line each. warnings (lines for the log) and command
// are valid even if err is not nil.
func Load(args []string, lookup func(string) (string, bool), names []string) (c *Config, command Command, warnings []string, err error) {
	return loadWith(inputs{args, lookup, names}, nil)
}

// loadWith is Load with overrides that take precedence over flags.
func loadWith(in inputs, overrides map[string]override) (c *Config, command Command, warnings []string, err error) {
	l := loader{Config: new(Config), inputs: in, overrides: overrides}
	l.settings = table(l.Config)
	l.Config.inputs = in
	args := in.args
	l.arguments(args)
	switch l.command {
	case CommandHelp, CommandHelpJSON:
		// The help is printed even if earlier arguments have problems. But "queue help
		// TOPIC" fails if there is no such topic.
		if len(args) > 0 && args[0] == "help" && len(l.problems) > 0 {
			return nil, l.command, nil, errors.Join(l.problems...)
		}
		return l.Config, l.command, nil, nil
	case CommandVersion:
		return l.Config, l.command, nil, nil
	}
	for _, s := range l.readingOrder() {
		text, from, found := s.flagText, fromFlag, s.name
		if !s.isFlagged {
			text, found = l.variable(s)
			from = fromEnvironment
		}
		if o := l.overrides[s.name]; o.text != "" {
			text, from, found = o.text, o.source, o.key
		}
		if text == "" && s.source == fromDefault && !s.isFlagged {
			if text = l.presetText(s); text != "" {
				from, found = fromPreset, l.Preset
			}
		}
		if text == "" && s.source == fromDefault {
			text, from, found = s.standardText(), fromDefault, s.name
		}
		// Without a text, the field keeps its value: zero, or the value from
		// OBSERVABILITY_CONFIG.
		if text != "" {
			s.source, s.found = from, found
			var ignored ignoredError
			switch err := s.value.set(text); {
			case errors.As(err, &ignored):
				for line := range strings.SplitSeq(ignored.Error(), "\n") {
					s.ignored = append(s.ignored, s.found+": "+line)
				}
				if s.value.text() == "" { // all parts were ignored
					s.source, s.found = fromDefault, s.name
					if standard := s.standardText(); standard != "" {
						_ = s.value.set(standard)
					}
				}
			case err != nil:
				s.problems = append(s.problems, s.wantError(text, err))
			}
		}
		if s.name == "OBSERVABILITY_CONFIG" {
			l.readObservability()
		}
	}
	switch l.command {
	case CommandProbe:
		l.readProbe()
	case CommandRun, CommandCheck, CommandUpgrade:
		l.replace()
		l.moveSidePorts()
		l.finish()
		l.checkCombinations()
		l.checkPorts()
		l.readNames(in.names)
	}
	if len(l.links) > 0 {
		l.warn("%s: not a setting but where Kubernetes says a Service is; counts as unset (another name for the Service, or "+
			"enableServiceLinks: false in the pod, avoids this)", strings.Join(l.links, ", "))
	}
	problems := l.problems
	for i := range l.settings {
		if s := &l.settings[i]; l.isUsed(s) {
			problems = append(problems, s.problems...)
			l.warnings = append(l.warnings, s.ignored...)
		}
	}
	if len(problems) > 0 {
		return nil, l.command, l.warnings, errors.Join(problems...)
	}
	return l.Config, l.command, l.warnings, nil
}

// readingOrder returns the settings in table order, but first PRESET and
// OBSERVABILITY_CONFIG, whose values other settings override.
func (l *loader) readingOrder() []*setting {
	all := make([]*setting, 0, len(l.settings))
	for i := range l.settings {
		if s := &l.settings[i]; s.name == "OBSERVABILITY_CONFIG" || s.name == "PRESET" {
			all = slices.Insert(all, 0, s)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// variable returns the text and name of the first variable of the setting that is set.
func (l *loader) variable(s *setting) (text, name string) {
	for name := range strings.FieldsSeq(s.names) {
		text, _ := l.lookup(name)
		if strings.HasPrefix(name, "OTEL_") {
			text = strings.TrimSpace(text) // as queue-proxy does
		}
		switch {
		case text == "":
		case isLink(text):
			l.links = append(l.links, name+"="+quoteShort(text))
		default:
			return text, name
		}
	}
	return "", ""
}

// wantError returns an error for an invalid text of the setting. The message names the
// source of the text and the accepted values.
func (s *setting) wantError(text string, err error) error {
	assignment := s.found + "=" + quoteShort(text)
	if s.source == fromFlag && s.found != "--"+s.flag {
		assignment += " (--" + s.flag + ")"
	}
	return wantError(assignment, s.value.about().wants, err)
}

func wantError(assignment, wants string, err error) error {
	if err == nil || errors.Is(err, errNotAccepted) {
		return fmt.Errorf("%s: want %s", assignment, wants)
	}
	return fmt.Errorf("%s: want %s: %w", assignment, wants, err)
}

const (
	// defaultQueueCapacity is the queue capacity without a concurrency limit.
	defaultQueueCapacity = 1000
	// queuePerSlot is the default queue capacity for each slot of the limit.
	queuePerSlot = 10
)

// replace replaces exporters of earlier Knative versions, with a warning.
func (l *loader) replace() {
	if backend := l.MetricsBackend; backend == "opencensus" || backend == "stackdriver" {
		l.MetricsBackend = "prometheus"
		l.warn("%s=%s: there is no such exporter; metrics are served to Prometheus on METRICS_PORT", l.setting("SERVING_REQUEST_METRICS_BACKEND").found, backend)
	}
	if l.Tracing.Protocol == "stackdriver" {
		l.Tracing.Protocol = "none"
		l.warn("%s=stackdriver: there is no such exporter; no traces are exported", l.setting("TRACING_CONFIG_BACKEND").found)
	}
}

// sidePorts are the settings of the ports that SIDE_PORTS moves, in the order of their
// new ports.
var sidePorts = []string{"QUEUE_SERVING_TLS_PORT", "ADMIN_PORT", "AUTOSCALER_METRICS_PORT", "METRICS_PORT", "STATUS_PORT", "PROFILING_PORT"}

// moveSidePorts applies SIDE_PORTS to all side ports without an explicit setting. It
// also makes the default drain socket unique to the serving port.
func (l *loader) moveSidePorts() {
	all := l.setting("SIDE_PORTS")
	if l.SidePorts == 0 {
		return
	}
	for i, name := range sidePorts {
		s := l.setting(name)
		if s.source != fromDefault {
			continue
		}
		s.source, s.found = all.source, all.found
		text := "0"
		if l.SidePorts != sidePortsOff {
			text = strconv.Itoa(l.SidePorts + i)
		}
		_ = s.value.set(text)
	}
	if s := l.setting("DRAIN_SOCKET"); s.source == fromDefault {
		l.DrainSocket += "-" + strconv.Itoa(l.ServingPort)
		s.source = all.source
	}
}

// platformVariables show that the gate runs in a pod. Kubernetes sets the first in
// every pod, and Knative sets the others.
var platformVariables = []string{
	"KUBERNETES_SERVICE_HOST",
	"SERVING_NAMESPACE", "SERVING_CONFIGURATION", "SERVING_REVISION", "SERVING_SERVICE", "SERVING_POD", "SERVING_POD_IP",
}

// platformDrainQuiet is the default of DRAIN_QUIET_SECONDS in a pod, as in queue-proxy:
// load balancers need time to notice that the pod terminates.
const platformDrainQuiet = 30 * time.Second

func (l *loader) isOnPlatform() bool {
	return slices.ContainsFunc(platformVariables, func(name string) bool {
		text, _ := l.lookup(name)
		return text != ""
	})
}

// finish computes defaults that depend on other settings.
func (l *loader) finish() {
	l.Gate.ConcurrencyLimit, l.Gate.Overload.AutoLimit = l.Concurrency.Limit, l.Concurrency.Auto
	if !l.IsSet("QUEUE_CAPACITY") {
		l.Gate.QueueCapacity = defaultQueueCapacity
		switch {
		case l.Gate.ConcurrencyLimit > 0:
			l.Gate.QueueCapacity = queuePerSlot * l.Gate.ConcurrencyLimit
		case l.Gate.Overload.AutoLimit != nil:
			l.Gate.Overload.QueuePerSlot = queuePerSlot
		}
	}
	l.Gate.Overload.Brake = l.EngineMetrics != ""
	if !l.IsSet("DRAIN_QUIET_SECONDS") && l.isOnPlatform() {
		l.Gate.DrainQuiet = platformDrainQuiet
	}
	if l.Identity.Pod == "" {
		l.Identity.Pod, _ = os.Hostname() // serve even without a pod name
	}
	if l.ProfilingAddress == "" {
		l.ProfilingAddress = l.ListenAddress
	}
	if l.MetricsAddress == "" {
		l.MetricsAddress = l.ListenAddress
	}
	if l.LogLevel == "" && l.LoggingConfig != "" {
		_, l.LogLevel, _ = readLogging(l.LoggingConfig)
		l.setting("SERVING_LOGGING_LEVEL").source = l.setting("SERVING_LOGGING_CONFIG").source
	}
	if l.LogLevel == "" {
		l.LogLevel = "info"
		l.setting("SERVING_LOGGING_LEVEL").source = fromDefault
	}
}

// problem adds a problem to the named setting, unless the setting already has one.
func (l *loader) problem(name, format string, values ...any) {
	if s := l.setting(name); len(s.problems) == 0 {
		s.problems = append(s.problems, fmt.Errorf(format, values...))
	}
}

func (l *loader) warn(format string, values ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, values...))
}

// shownBytes is the maximum length of a value in an error.
const shownBytes = 120

func quoteShort(text string) string {
	if len(text) > shownBytes {
		return strconv.Quote(text[:shownBytes]) + "..."
	}
	return strconv.Quote(text)
}
