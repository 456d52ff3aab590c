package config

import (
	"slices"
	"strings"
	"time"
)

// command is what the first argument may ask for in the place of running the gate.
type command struct {
	name     string
	is       Command
	settings []string            // those of the table that it reads
	own      func(*Config) []row // flags without a variable
	usage    string              // behind the name
	summary  string              // for the list of commands
	about    string              // for its own help
}

var commands = []command{
	{"probe", CommandProbe, []string{"QUEUE_SERVING_PORT", "LISTEN_ADDRESS"}, probeRows, "[flags]",
		"ask a running gate whether it is ready",
		"Asks the gate that runs on this host whether it is ready, as one of those who ask it on Kubernetes " +
			"would, and says so with the exit code: 0 ready, 1 not ready or not there, 2 wrong flags. " +
			"For Docker's HEALTHCHECK, systemd's ExecStartPost and exec probes."},
	{"drain", CommandDrain, []string{"DRAIN_SOCKET"}, nil, "[flags]",
		"start a drain of the gate that runs beside, and wait until it ends",
		"Starts a drain of the gate behind the drain socket and waits until no request is under way any " +
			"more: probes turn to 503, what was accepted is served, and the gate ends. For the preStop hook of a native " +
			"sidecar. Exit codes: 0 drained, 1 no gate there or the drain was cut short, 2 wrong flags."},
	{"version", CommandVersion, nil, nil, "", "print version, commit and Go version", "Prints version, commit and Go version."},
	{"help", CommandHelp, nil, helpRows, "[command]", "print this, or what there is to know of a command",
		"Prints what there is to know of the gate, or of a command."},
}

func helpRows(*Config) []row {
	return []row{
		{"--json", helpJSON, "false", yesNo.at(new(bool)),
			"Print all commands, flags and settings as JSON, for programs that generate documentation or completions."},
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

// Probe is what `queue probe` asks.
type Probe struct {
	As      string        // kubelet, activator or ingress
	Timeout time.Duration // 0 = that of the caller
	// Retry is how long to ask again and again, 0 for once.
	Retry time.Duration

	period time.Duration
}

// legacyProbe is the flag that exec probes of Knative up to 0.14 used; `queue probe`
// replaces it.
const legacyProbe = "probe-period"

// legacyProbeTimeout is how long `-probe-period 0` retries, as in Knative.
const legacyProbeTimeout = 10 * time.Second

func probeRows(c *Config) []row {
	p := &c.Probe
	return []row{
		{"--as", "as", "kubelet", words("kubelet", "activator", "ingress").at(&p.As),
			"Whose question to ask: is the container ready (kubelet, activator), or does the gate answer, be the container ready or not (ingress)."},
		{"--timeout", "timeout", "(1s, of the activator 300ms)", positiveDuration.at(&p.Timeout),
			"How long to wait for the answer."},
		{"--" + legacyProbe, legacyProbe, "(ask once)", wholeSeconds(0).at(&p.period),
			"Ask again and again for that long until the answer is yes; 0 = for 10 s. \"queue -probe-period 0\" is how Knative called this up to 0.14."},
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

// begin makes c the command: only its settings are read, and only its flags are known.
func (l *loader) begin(c *command) {
	l.command, l.subject, l.Subject = c.is, c, c.name
	l.settings = c.settingsOf(l.Config, l.settings)
}

// settingsOf returns the settings and flags of the command; all is the table.
func (c *command) settingsOf(config *Config, all []setting) (own []setting) {
	for _, s := range all {
		if slices.Contains(c.settings, s.name) {
			own = append(own, s)
		}
	}
	if c.own != nil {
		for _, r := range c.own(config) {
			own = append(own, setting{row: r, name: r.names})
		}
	}
	return own
}

// flags lists the flags of the command.
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

// writeHelp prints the help of one command.
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
		settings[i].writeHelp(b)
	}
}

func commandNames() string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}
