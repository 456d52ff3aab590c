package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// defaultQueueCapacity is how many may wait where no limit says what ten times it is.
const defaultQueueCapacity = 1000

// loading is the state of one Load.
type loading struct {
	cfg      Config
	bad      []bool   // by index of the table of settings: a problem is reported already
	derived  []string // likewise: where within another setting the value was found
	problems []error
	warnings []string
}

// Load reads the configuration from args (without the program's name) and from lookup, which is os.LookupEnv outside of tests.
// A flag beats the environment, which beats the default. An empty variable is as good as none; an empty flag asks for the default.
//
// The error joins all problems, a line for each; with one, Config is empty. Warnings are lines too, for the log, and may come
// with an error as well. The Command is right in any case.
func Load(args []string, lookup func(string) (string, bool)) (cfg Config, command Command, warnings []string, err error) {
	given := parseArguments(args)
	if given.command == CommandHelp || given.command == CommandVersion {
		return Config{}, given.command, nil, nil
	}
	l := loading{bad: make([]bool, len(settings)), derived: make([]string, len(settings)), problems: given.problems}
	l.cfg.origins = make([]origin, len(settings))
	if given.command == CommandDrain {
		l.loadSetting(settingIndex("DRAIN_SOCKET"), given.texts, lookup)
	} else {
		for i := range settings {
			l.loadSetting(i, given.texts, lookup)
		}
		l.applyObservability()
		l.derive()
		l.checkCombinations()
		l.checkClashes()
	}
	if len(l.problems) > 0 {
		return Config{}, given.command, l.warnings, errors.Join(l.problems...)
	}
	return l.cfg, given.command, l.warnings, nil
}

// loadSetting sets one field from the flag, the environment or the default.
func (l *loading) loadSetting(i int, flags map[int]string, lookup func(string) (string, bool)) {
	s := &settings[i]
	text, from := s.standard, originDefault
	if flag, ok := flags[i]; ok {
		if flag != "" {
			text, from = flag, originFlag
		}
	} else if env, ok := lookup(s.env); ok && env != "" {
		text, from = env, originEnvironment
	}
	l.cfg.origins[i] = from
	if text == "" {
		return
	}
	value := s.field(&l.cfg)
	if err := value.set(text); err != nil {
		l.bad[i] = true
		l.problems = append(l.problems, wantError(l.nameOf(s.env, text), value.accepts(), err))
	}
}

// nameOf names the setting env with the value that it was given, and where that was.
func (l *loading) nameOf(env, text string) string {
	i := settingIndex(env)
	switch {
	case l.derived[i] != "":
		return l.derived[i] + "=" + quoteShort(text)
	case l.cfg.origins[i] == originFlag:
		return env + "=" + quoteShort(text) + " (--" + settings[i].flag + ")"
	}
	return env + "=" + quoteShort(text)
}

// deriveFrom gives the setting env the value text found at path in the setting with index source. A setting of its own stays, but
// text is checked all the same.
func (l *loading) deriveFrom(source int, path, env, text string) {
	i := settingIndex(env)
	field := &l.cfg
	if l.cfg.Given(env) {
		field = new(Config)
	}
	value := settings[i].field(field)
	if err := value.set(text); err != nil {
		l.problems = append(l.problems, wantError(settings[source].env+" "+path+"="+quoteShort(text), value.accepts(), err))
		return
	}
	if field == &l.cfg {
		l.derived[i] = settings[source].env + " " + path
		l.cfg.origins[i] = l.cfg.origins[source]
	}
}

// derive works out the defaults that depend on something else.
func (l *loading) derive() {
	c := &l.cfg
	if c.origins[settingIndex("QUEUE_CAPACITY")] == originDefault {
		c.QueueCapacity = defaultQueueCapacity
		if c.ConcurrencyLimit > 0 {
			c.QueueCapacity = 10 * c.ConcurrencyLimit
		}
	}
	if c.Pod == "" {
		c.Pod, _ = os.Hostname() // a pod without a name is no reason not to serve
	}
	if c.ProfilingAddress == "" {
		c.ProfilingAddress = c.ListenAddress
	}
	if c.MetricsAddress == "" {
		c.MetricsAddress = c.ListenAddress
	}
	if c.LoggingConfig != "" && !c.Given("SERVING_LOGGING_LEVEL") {
		if level, err := readZapConfig(c.LoggingConfig); err == nil && level != "" {
			c.LogLevel = level
			c.origins[settingIndex("SERVING_LOGGING_LEVEL")] = c.origins[settingIndex("SERVING_LOGGING_CONFIG")]
		}
	}
}

// checkCombinations reports values that are accepted alone but not together.
func (l *loading) checkCombinations() {
	c := &l.cfg
	if firstByte(c.ReadinessProbe) == '[' && !c.MultiContainerProbes && isEmptyArray(c.ReadinessProbe) {
		l.problem("SERVING_READINESS_PROBE", "SERVING_READINESS_PROBE=%s: want one probe at least, unless ENABLE_MULTI_CONTAINER_PROBES is true",
			quoteShort(c.ReadinessProbe))
	}
	switch c.TracingProtocol {
	case "zipkin":
		if !isURL(c.TracingEndpoint) {
			l.problem("TRACING_CONFIG_ZIPKIN_ENDPOINT", "TRACING_CONFIG_ZIPKIN_ENDPOINT=%q: want a URL (http or https) for traces to zipkin", c.TracingEndpoint)
		}
	case "grpc", "http/protobuf":
		if c.TracingEndpoint == "" {
			l.problem("TRACING_CONFIG_ZIPKIN_ENDPOINT", "TRACING_CONFIG_ZIPKIN_ENDPOINT=\"\": want a URL or host:port for traces over %s", c.TracingProtocol)
		}
	}
	if c.MetricsBackend == "opencensus" {
		l.warnings = append(l.warnings, "SERVING_REQUEST_METRICS_BACKEND=opencensus: there is no exporter to OpenCensus agents; the figures are shown to Prometheus on METRICS_PORT")
	}
	if (c.MetricsBackend == "grpc" || c.MetricsBackend == "http/protobuf") && c.MetricsCollector == "" {
		l.problem("METRICS_COLLECTOR_ADDRESS", "METRICS_COLLECTOR_ADDRESS=\"\": want a URL or host:port for metrics over %s", c.MetricsBackend)
	}
	l.checkTemplate()
	l.checkTLS()
	if c.TLSMinVersion == "1.3" && c.TLSMaxVersion == "1.2" {
		l.problem("QUEUE_PROXY_TLS_MAX_VERSION", "QUEUE_PROXY_TLS_MAX_VERSION=%q: want a version not below QUEUE_PROXY_TLS_MIN_VERSION=%q",
			c.TLSMaxVersion, c.TLSMinVersion)
	}
}

// problem adds a problem of the setting env, unless one is reported already.
func (l *loading) problem(env, format string, values ...any) {
	if i := settingIndex(env); !l.bad[i] {
		l.bad[i] = true
		l.problems = append(l.problems, fmt.Errorf(format, values...))
	}
}

// problemIn adds a problem of a value within OBSERVABILITY_CONFIG.
func (l *loading) problemIn(path, value, want string) {
	l.problems = append(l.problems, fmt.Errorf("OBSERVABILITY_CONFIG %s=%s: want %s", path, shorten(value), want))
}

func wantError(name, accepts string, err error) error {
	if errors.Is(err, errNotAccepted) {
		return fmt.Errorf("%s: want %s", name, accepts)
	}
	return fmt.Errorf("%s: want %s: %w", name, accepts, err)
}

// shownBytes bounds what an error repeats of a value.
const shownBytes = 120

func quoteShort(text string) string {
	if len(text) > shownBytes {
		return strconv.Quote(text[:shownBytes]) + "..."
	}
	return strconv.Quote(text)
}

// shorten keeps a fragment of JSON to one short line.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > shownBytes {
		return strings.ToValidUTF8(text[:shownBytes], "") + "..."
	}
	return text
}

func isEmptyArray(text string) bool {
	return strings.Trim(text, " \t\r\n[]") == ""
}
