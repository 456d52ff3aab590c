package config

import (
	"slices"
	"strings"
	"time"
)

// command is a subcommand, such as probe.
type command struct {
	name string
	is   Command
	// settings are the names of the settings in the help of the command. A command that
	// does not run the gate reads only these settings.
	settings []string
	ownRows  func(*Config) []row // flags without a variable
	usage    string              // arguments after the name, for its help
	summary  string              // for the list of commands
	about    string              // for its own help
	gate     bool                // runs the gate, so all settings of the table are read
}

var commands = []command{
	{"probe", CommandProbe, []string{"QUEUE_SERVING_PORT", "LISTEN_ADDRESS"}, probeRows, "[flags]",
		"probe a running gate",
		"Probes the gate that runs on this host, like a prober of Kubernetes, and reports the result " +
			"in the exit code: 0 ready, 1 not ready or not running, 2 wrong flags. " +
			"For Docker's HEALTHCHECK, systemd's ExecStartPost and exec probes.", false},
	{"drain", CommandDrain, []string{"DRAIN_SOCKET"}, nil, "[flags]",
		"start a drain of the gate in the same pod, and wait until it ends",
		"Starts a drain of the gate through the drain socket and waits until no request is open: " +
			"probes get 503, accepted requests are served, and the gate ends. For the preStop hook of a native " +
			"sidecar. Exit codes: 0 drained, 1 no gate, or the drain was cut short, 2 wrong flags.", false},
	{"upgrade", CommandUpgrade, []string{"DRAIN_SOCKET"}, upgradeRows, "[flags]",
		"start a gate that takes the ports of the running one, which then drains",
		"Runs a gate, with its own settings and flags, that takes the listening sockets of the running gate through the drain " +
			"socket. When it serves, the running gate stops accepting, finishes its requests and ends with code 0. " +
			"If it cannot start, the running gate continues. Exit codes: those of the gate.", true},
	{"version", CommandVersion, nil, nil, "", "print version, commit and Go version", "Prints version, commit and Go version.", false},
	{"help", CommandHelp, nil, helpRows, "[command]", "print this help, or the help of a command",
		"Prints the help of the gate or of a command.", false},
}

func helpRows(*Config) []row {
	return []row{
		{"--json", helpJSON, "false", yesNo.bind(new(bool)),
			"Print all commands, flags and settings as JSON, for programs that generate documentation or completions."},
	}
}

func upgradeRows(c *Config) []row {
	return []row{
		{"--background", "background", "false", yesNo.bind(&c.Background),
			"Run the gate in the background, and return when it serves or has failed. For ExecReload of systemd."},
	}
}

// helpJSON is the flag of `queue help` that selects CommandHelpJSON.
const helpJSON = "json"

func commandNamed(name string) *command {
	if i := slices.IndexFunc(commands, func(c command) bool { return c.name == name }); i >= 0 {
		return &commands[i]
	}
	return nil
}

// Probe holds the flags of `queue probe`.
type Probe struct {
	As      string        // prober to imitate: kubelet, activator or ingress
	Timeout time.Duration // 0 = the default of As
	// Retry is how long to repeat the probe until it succeeds; 0 = once.
	Retry time.Duration

	period time.Duration
}

// legacyProbe is the flag of exec probes in Knative up to 0.14.
const legacyProbe = "probe-period"

// legacyProbeTimeout is how long `-probe-period 0` retries, as in Knative.
const legacyProbeTimeout = 10 * time.Second

func probeRows(c *Config) []row {
	p := &c.Probe
	return []row{
		{"--as", "as", "kubelet", wordKind("kubelet", "activator", "ingress").bind(&p.As),
			"Prober to imitate: kubelet and activator ask whether the container is ready, ingress whether the gate responds."},
		{"--timeout", "timeout", "(1s; 300ms for the activator)", positiveDuration.bind(&p.Timeout),
			"How long to wait for the response."},
		{"--" + legacyProbe, legacyProbe, "(once)", wholeSeconds(0).bind(&p.period),
			"Repeat the probe for this time until it succeeds; 0 = 10 s. \"queue -probe-period 0\" is the form of Knative up to 0.14."},
	}
}

// readProbe completes the settings of `queue probe`.
func (l *loader) readProbe() {
	if period := l.flagged(legacyProbe); period.isFlagged && period.flagText != "" {
		if l.Probe.Retry = l.Probe.period; l.Probe.Retry == 0 {
			l.Probe.Retry = legacyProbeTimeout
		}
	}
	l.Probe.period = 0
}

// begin selects c as the command. From then on only its settings and flags count.
func (l *loader) begin(c *command) {
	l.command, l.subject, l.Subject = c.is, c, c.name
	own := c.settingsOf(l.Config, l.settings)
	if c.gate {
		own = slices.DeleteFunc(own, func(s setting) bool { return slices.Contains(c.settings, s.name) })
		own = slices.Concat(l.settings, own)
	}
	l.settings = own
}

// settingsOf returns the settings that the command reads and its own flags. The
// parameter all is the whole table of settings. The flags store their values in config.
func (c *command) settingsOf(config *Config, all []setting) (own []setting) {
	for _, s := range all {
		if slices.Contains(c.settings, s.name) {
			own = append(own, s)
		}
	}
	if c.ownRows != nil {
		for _, r := range c.ownRows(config) {
			own = append(own, setting{row: r, name: r.names})
		}
	}
	return own
}

func (l *loader) flags() string {
	var all []string
	for i := range l.settings {
		all = append(all, "--"+l.settings[i].flag)
	}
	if all == nil {
		return "no flag"
	}
	return anyOf(all)
}

func (c *command) writeHelp(b *strings.Builder, settings []setting) {
	b.WriteString(strings.TrimRight("Usage: queue "+c.name+" "+c.usage, " ") + "\n\n")
	writeWrapped(b, "", c.about)
	if c.is == CommandHelp {
		b.WriteString("\nCommands: " + commandNames() + "\n")
	}
	if len(settings) > 0 {
		b.WriteString("\n")
	}
	for i := range settings {
		if s := &settings[i]; !c.gate || slices.Contains(c.settings, s.name) || strings.HasPrefix(s.name, "--") {
			s.writeHelp(b)
		}
	}
}

func commandNames() string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}
