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
	// CommandVersion prints WriteVersion's line. The Config is empty.
	CommandVersion
)

func (c Command) String() string {
	switch c {
	case CommandDrain:
		return "drain"
	case CommandCheck:
		return "check"
	case CommandHelp:
		return "help"
	case CommandVersion:
		return "version"
	default:
		return "run"
	}
}

// arguments is a command line taken apart. Values are not checked yet.
type arguments struct {
	command  Command
	texts    map[int]string // flag values by index of the table of settings; the last of several counts
	problems []error
}

func parseArguments(args []string) arguments {
	a := arguments{}
	if len(args) > 0 && args[0] == "drain" {
		a.command = CommandDrain
		args = args[1:]
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch arg {
		case "--help", "-h":
			return arguments{command: CommandHelp}
		case "--version":
			a.command = CommandVersion // unless --help follows
			continue
		case "--check":
			if a.command == CommandDrain {
				a.problem("--check: not a flag of \"queue drain\"; want --drain-socket")
			} else if a.command == CommandRun {
				a.command = CommandCheck
			}
			continue
		}
		name, isFlag := strings.CutPrefix(arg, "--")
		if !isFlag || name == "" {
			a.stray(arg)
			continue
		}
		name, text, hasText := strings.Cut(name, "=")
		i := flagIndex(name)
		if i < 0 {
			a.unknown("--" + name)
			// What follows may be the value of the flag: one problem is enough.
			if !hasText && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		}
		if !hasText {
			var field Config
			value := settings[i].field(&field)
			switch {
			case value.hint() == "":
				text = "true"
			case len(args) == 0 || strings.HasPrefix(args[0], "--"):
				a.problem("--%s (%s): has no value; want %s", name, settings[i].env, value.accepts())
				continue
			default:
				text, args = args[0], args[1:]
			}
		}
		if a.command == CommandDrain && settings[i].env != "DRAIN_SOCKET" {
			a.problem("--%s: not a flag of \"queue drain\"; want --drain-socket", name)
			continue
		}
		if a.texts == nil {
			a.texts = make(map[int]string)
		}
		a.texts[i] = text
	}
	if a.command == CommandVersion {
		return arguments{command: CommandVersion}
	}
	return a
}

func (a *arguments) problem(format string, values ...any) {
	a.problems = append(a.problems, fmt.Errorf(format, values...))
}

func (a *arguments) stray(arg string) {
	if like := flagLike(strings.SplitN(arg, "=", 2)[0]); like != "" {
		a.problem("argument %s: want %s, or the setting in the environment", quoteShort(arg), like)
		return
	}
	a.problem("argument %s: want flags as \"queue --help\" lists them, or drain as the first argument", quoteShort(arg))
}

func (a *arguments) unknown(flag string) {
	if like := flagLike(flag); like != "" {
		a.problem("%s: unknown flag; want %s", quoteShort(flag), like)
		return
	}
	a.problem("%s: unknown flag; want one of those that \"queue --help\" lists", quoteShort(flag))
}
