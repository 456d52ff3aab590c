package config

import (
	"fmt"
	"strings"
)

// Command is what the process is asked to do.
type Command uint8

const (
	// CommandRun runs the gate.
	CommandRun Command = iota
	// CommandDrain asks the gate behind DrainSocket to drain and waits for its end. Of the Config, only DrainSocket is set.
	CommandDrain
	// CommandCheck validates the configuration and prints it with WriteCheck.
	CommandCheck
	// CommandHelp prints WriteHelp's text. The Config is empty.
	CommandHelp
	// CommandVersion prints version, commit and Go version. The Config is empty.
	CommandVersion
)

// arguments finds the command and notes the texts of flags with their settings; the last of several counts.
func (l *loader) arguments(args []string) {
	if len(args) > 0 && args[0] == "drain" {
		l.command = CommandDrain
		args = args[1:]
	}
	for len(args) > 0 && l.command != CommandHelp {
		args = l.argument(args[0], args[1:])
	}
}

// argument reads one argument and returns those left.
func (l *loader) argument(arg string, rest []string) []string {
	switch {
	case arg == "--help" || arg == "-h":
		l.command = CommandHelp
	case arg == "--version":
		l.command = CommandVersion // unless --help follows
	case arg == "--check" && l.command == CommandDrain:
		l.problemOfArgument("--check: not a flag of \"queue drain\"; want --drain-socket")
	case arg == "--check":
		l.command = max(l.command, CommandCheck)
	case !strings.HasPrefix(arg, "--") || arg == "--":
		l.stray(arg)
	default:
		name, text, hasText := strings.Cut(arg[2:], "=")
		return l.flag(name, text, hasText, rest)
	}
	return rest
}

// flag notes the text of a flag, which may be the next argument.
func (l *loader) flag(name, text string, hasText bool, rest []string) []string {
	isText := len(rest) > 0 && !strings.HasPrefix(rest[0], "--")
	s := l.flagged(name)
	switch {
	case s == nil:
		l.unknown("--" + name)
		// What follows may be the value of the flag: one problem is enough.
		if !hasText && isText && rest[0] != "" && rest[0][0] != '-' {
			rest = rest[1:]
		}
		return rest
	case hasText:
	case s.value.about().hint == "":
		text = "true"
	case !isText:
		l.problemOfArgument("--%s (%s): has no value; want %s", name, s.name, s.value.about().wants)
		return rest
	default:
		text, rest = rest[0], rest[1:]
	}
	if l.command == CommandDrain && s.name != "DRAIN_SOCKET" {
		l.problemOfArgument("--%s: not a flag of \"queue drain\"; want --drain-socket", name)
		return rest
	}
	s.isFlagged, s.flagText = true, text
	return rest
}

func (l *loader) flagged(flag string) *setting {
	for i := range l.settings {
		if l.settings[i].flag == flag {
			return &l.settings[i]
		}
	}
	return nil
}

// meant returns the flag or command that name stands for: another name of it (--container-concurrency, --USER_PORT), or, with sure
// being false, a misspelling; "" for none.
func (l *loader) meant(name string) (like string, sure bool) {
	name = strings.TrimLeft(name, "-")
	known := []word{newWord("check"), newWord("version"), newWord("help"), newWord("drain")}
	for i := range l.settings {
		s := &l.settings[i]
		if variable := variableLike(name); s.name == variable || variableLike(s.flag) == variable {
			return "--" + s.flag, true
		}
		known = append(known, newWord(s.flag))
	}
	switch i := newWord(name).closest(known, 8); i {
	case -1:
		return "", false
	case 3:
		return "queue drain", false
	default:
		return "--" + known[i].text, false
	}
}

func variableLike(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func (l *loader) problemOfArgument(format string, values ...any) {
	l.problems = append(l.problems, fmt.Errorf(format, values...))
}

func (l *loader) stray(arg string) {
	name, _, _ := strings.Cut(arg, "=")
	switch like, sure := l.meant(name); {
	case sure:
		l.problemOfArgument("argument %s: want %s, or the setting in the environment", quoteShort(arg), like)
	case like != "" && name != "drain":
		l.problemOfArgument("argument %s: did you mean %s?", quoteShort(arg), like)
	default:
		l.problemOfArgument("argument %s: want flags as \"queue --help\" lists them, or drain as the first argument", quoteShort(arg))
	}
}

func (l *loader) unknown(flag string) {
	switch like, sure := l.meant(flag); {
	case sure:
		l.problemOfArgument("%s: unknown flag; want %s", quoteShort(flag), like)
	case like != "":
		l.problemOfArgument("%s: unknown flag; did you mean %s?", quoteShort(flag), like)
	default:
		l.problemOfArgument("%s: unknown flag; want one of those that \"queue --help\" lists", quoteShort(flag))
	}
}
