package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Command is the action selected on the command line.
type Command uint8

const (
	// CommandRun runs the gate, and Application if there is one.
	CommandRun Command = iota
	// CommandDrain starts a drain through DrainSocket and waits until it ends. Only
	// DrainSocket of the Config is set.
	CommandDrain
	// CommandProbe probes the gate on ServingPort. Only ServingPort, ListenAddress and
	// Probe of the Config are set.
	CommandProbe
	// CommandUpgrade runs a gate that takes the listening sockets of the running gate.
	// The running gate then drains.
	CommandUpgrade
	// CommandCheck validates the configuration and prints it with WriteCheck.
	CommandCheck
	// CommandHelp prints the text of WriteHelp. Load reads no settings, so all exported
	// fields of the Config except Subject are zero.
	CommandHelp
	// CommandHelpJSON prints the text of WriteHelpJSON. Load reads no settings, so all
	// exported fields of the Config are zero.
	CommandHelpJSON
	// CommandVersion prints the version, the commit and the version of Go. Load reads
	// no settings, so all settings in the Config are zero.
	CommandVersion
)

// arguments determines the command and stores the texts of flags in their settings. A
// repeated flag replaces its earlier text.
func (l *loader) arguments(args []string) {
	if len(args) > 0 {
		name, text, hasText := strings.Cut(args[0], "=")
		switch c := commandNamed(name); {
		case name == "help":
			l.helpOf(args[1:])
			return
		case c != nil && !hasText:
			l.begin(c)
			args = args[1:]
		case name == "-"+legacyProbe || name == "--"+legacyProbe:
			l.begin(commandNamed("probe"))
			args = l.flag(legacyProbe, text, hasText, args[1:])
		}
	}
	for all := args; len(args) > 0 && l.command != CommandHelp; {
		if args[0] == "--" && l.subject == nil {
			if l.Application = args[1:]; len(l.Application) == 0 {
				l.problemOfArgument("argument \"--\": want an application's command after it")
			}
			return
		}
		if l.subject == nil && l.startsApplication(args[0]) {
			before := all[:len(all)-len(args)]
			l.problemOfArgument("argument %s: "+wantsFlags+"; to start an application, put its command after \"--\": %s", quoteShort(args[0]), commandNames(),
				commandLine(slices.Concat([]string{"queue"}, before, []string{"--"}, args)))
			return // the rest belongs to the application
		}
		if args[0] == "--" && l.subject.gate {
			l.problemOfArgument("argument \"--\": queue %s starts no application, because the running one is a child of the running gate", l.subject.name)
			return
		}
		args = l.argument(args[0], args[1:])
	}
}

// startsApplication reports whether an argument may be the first word of an
// application's command line. It must not resemble a flag, a command, or the value of a
// flag.
func (l *loader) startsApplication(arg string) bool {
	if arg == "" || strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") || commandNamed(arg) != nil {
		return false
	}
	_, notBool := strconv.ParseBool(arg)
	_, notNumber := strconv.ParseFloat(arg, 64)
	suggestion, _ := l.suggest(arg)
	return notBool != nil && notNumber != nil && suggestion == ""
}

// commandLine quotes args for a shell, and truncates a long result.
func commandLine(args []string) string {
	var quoted []string
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'`$&|;<>()*?[]{}~#!\\") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted = append(quoted, arg)
	}
	line := strings.Join(quoted, " ")
	if len(line) > shownBytes {
		return line[:shownBytes] + "..."
	}
	return line
}

func (l *loader) helpOf(topic []string) {
	l.command = CommandHelp
	if len(topic) == 1 && topic[0] == "--"+helpJSON {
		l.command = CommandHelpJSON
		return
	}
	if len(topic) == 0 || strings.HasPrefix(topic[0], "-") {
		return
	}
	c := commandNamed(topic[0])
	if c == nil {
		l.problemOfArgument("help %s: want one of %s", quoteShort(topic[0]), commandNames())
		return
	}
	l.begin(c)
	l.command = CommandHelp
}

// argument parses one argument and returns the remaining arguments.
func (l *loader) argument(arg string, rest []string) []string {
	switch {
	case arg == "--help" || arg == "-h":
		l.command = CommandHelp
	case arg == "--version":
		l.command = CommandVersion // unless --help follows
	case arg == "--check" && l.subject == nil:
		l.command = max(l.command, CommandCheck)
	case !strings.HasPrefix(arg, "--") || arg == "--":
		l.stray(arg)
	default:
		name, text, hasText := strings.Cut(arg[2:], "=")
		return l.flag(name, text, hasText, rest)
	}
	return rest
}

// flag stores the value of the flag --name. If the argument is --name=VALUE, hasText is
// true and the parameter text is the value. Otherwise the value of a boolean flag is
// "true", and the value of any other flag is the next argument, rest[0]. The result
// contains the arguments that have not been used yet.
func (l *loader) flag(name, text string, hasText bool, rest []string) []string {
	isText := len(rest) > 0 && !strings.HasPrefix(rest[0], "--")
	s := l.flagged(name)
	switch {
	case s == nil:
		l.unknown("--" + name)
		// Skip the flag's value, to report only one problem.
		if !hasText && isText && rest[0] != "" && rest[0][0] != '-' {
			rest = rest[1:]
		}
		return rest
	case hasText:
	case s.value.about().hint == "":
		text = "true"
	case !isText:
		l.problemOfArgument("--%s%s: has no value; want %s", name, s.variableShown(), s.value.about().wants)
		return rest
	default:
		text, rest = rest[0], rest[1:]
	}
	s.isFlagged, s.flagText = true, text
	return rest
}

// variableShown returns the variable of the setting in parentheses, or "".
func (s *setting) variableShown() string {
	if strings.HasPrefix(s.name, "--") {
		return ""
	}
	return " (" + s.name + ")"
}

func (l *loader) flagged(flag string) *setting {
	for i := range l.settings {
		if l.settings[i].flag == flag {
			return &l.settings[i]
		}
	}
	return nil
}

// suggest returns the flag or command that an argument probably means, or "". sure is
// true for another name of a flag (--USER_PORT), and false for a misspelling.
func (l *loader) suggest(arg string) (suggestion string, sure bool) {
	name := strings.TrimLeft(arg, "-")
	var known []word
	var shown []string
	add := func(text, shownAs string) { known, shown = append(known, newWord(text)), append(shown, shownAs) }
	for i := range l.settings {
		s := &l.settings[i]
		if variable := variableLike(name); s.name == variable || variableLike(s.flag) == variable {
			return "--" + s.flag, true
		}
		add(s.flag, "--"+s.flag)
	}
	add("help", "--help")
	if l.subject == nil {
		add("check", "--check")
		add("version", "--version")
		for _, c := range commands {
			add(c.name, "queue "+c.name)
		}
	}
	if i := newWord(name).closest(known, 8); i >= 0 {
		return shown[i], false
	}
	return "", false
}

const wantsFlags = "want flags as \"queue --help\" lists them, or a command (%s) as the first argument"

func variableLike(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func (l *loader) problemOfArgument(format string, values ...any) {
	l.problems = append(l.problems, fmt.Errorf(format, values...))
}

func (l *loader) stray(arg string) {
	name, _, _ := strings.Cut(arg, "=")
	switch suggestion, sure := l.suggest(name); {
	case l.subject != nil && !l.subject.gate:
		l.problemOfArgument("argument %s: want %s", quoteShort(arg), l.flags())
	case sure:
		l.problemOfArgument("argument %s: want %s, or the setting in the environment", quoteShort(arg), suggestion)
	case suggestion != "" && suggestion != "queue "+name:
		l.problemOfArgument("argument %s: did you mean %s?", quoteShort(arg), suggestion)
	default:
		l.problemOfArgument("argument %s: "+wantsFlags, quoteShort(arg), commandNames())
	}
}

func (l *loader) unknown(flag string) {
	switch suggestion, sure := l.suggest(flag); {
	case sure:
		l.problemOfArgument("%s: unknown flag; want %s", quoteShort(flag), suggestion)
	case suggestion != "":
		l.problemOfArgument("%s: unknown flag; did you mean %s?", quoteShort(flag), suggestion)
	case l.subject != nil && !l.subject.gate:
		l.problemOfArgument("%s: not a flag of \"queue %s\"; want %s", flag, l.subject.name, l.flags())
	default:
		l.problemOfArgument("%s: unknown flag; want a flag that \"queue --help\" lists", quoteShort(flag))
	}
}
