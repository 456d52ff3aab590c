// Package cli reads the help of the gate's binary, and makes man pages and
// completions of it: the gate knows its commands and settings, and carries
// neither.
package cli

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// Flag is a flag of the gate, and the variable of the same meaning.
type Flag struct {
	Name, Hint, Variable, Default, Help string
}

// Words are the values that can be completed.
func (f *Flag) Words() []string {
	if strings.Contains(f.Hint, "|") {
		return strings.Split(f.Hint, "|")
	}
	return nil
}

// Group is a title with flags.
type Group struct {
	Title string
	Flags []Flag
}

// Command is a command of the gate; that without a name is the gate itself.
type Command struct {
	Name, Summary, About string
	Groups               []Group
}

// Program is the gate's binary.
type Program struct {
	Version  string
	Commands []Command // the gate itself first
}

// Read asks the binary for its help.
func Read(path string) (*Program, error) {
	help := func(args ...string) (string, error) {
		text, err := exec.Command(path, append([]string{"help"}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("%s help %s: %w", path, strings.Join(args, " "), err)
		}
		return string(text), nil
	}
	text, err := help()
	if err != nil {
		return nil, err
	}
	version, err := exec.Command(path, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", path, err)
	}
	p := &Program{Version: strings.TrimSpace(string(version)), Commands: []Command{parse("", text)}}
	for _, c := range commandsOf(text) {
		text, err := help(c.Name)
		if err != nil {
			return nil, err
		}
		summary := c.Summary
		c = parse(c.Name, text)
		c.Summary = summary
		p.Commands = append(p.Commands, c)
	}
	if len(p.Commands) < 2 || len(p.Commands[0].Groups) < 2 {
		return nil, fmt.Errorf("%s help: is not the help of a gate", path)
	}
	return p, nil
}

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z]+) (?:\[[a-z]+\])? {2,}(.*)$`)
	flagLine    = regexp.MustCompile(`^  --([a-z0-9-]+)(?: (\S+))? {2,}([A-Z][A-Z0-9_]+)?(?: ?\[(.*)\])?$`)
	plainLine   = regexp.MustCompile(`^  --([a-z]+) {2,}([a-z].*)$`)
	defaultLine = regexp.MustCompile(`^ {20,}\[(.*)\]$`)
)

func commandsOf(help string) (all []Command) {
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range commandLine.FindAllStringSubmatch(list, -1) {
		all = append(all, Command{Name: m[1], Summary: m[2]})
	}
	return all
}

// parse reads the help of one command.
func parse(name, help string) Command {
	c := Command{Name: name}
	var about []string
	group := Group{}
	flush := func() {
		if len(group.Flags) > 0 {
			c.Groups = append(c.Groups, group)
		}
	}
	title := ""
	for text := range strings.Lines(help) {
		text = strings.TrimRight(text, "\n")
		last := len(group.Flags) - 1
		if m := plainLine.FindStringSubmatch(text); m != nil {
			group.Flags = append(group.Flags, Flag{Name: m[1], Help: m[2]})
		} else if m := flagLine.FindStringSubmatch(text); m != nil {
			if title != "" {
				flush()
				group, title = Group{Title: title}, ""
			}
			group.Flags = append(group.Flags, Flag{Name: m[1], Hint: m[2], Variable: m[3], Default: m[4]})
		} else if m := defaultLine.FindStringSubmatch(text); m != nil && last >= 0 {
			group.Flags[last].Default = m[1]
		} else if strings.HasPrefix(text, "        ") && last >= 0 {
			group.Flags[last].Help = strings.TrimSpace(group.Flags[last].Help + " " + strings.TrimSpace(text))
		} else if text != "" && text[0] != ' ' {
			title = text
			if len(group.Flags) == 0 && !strings.HasPrefix(text, "Usage:") && text != "Commands:" {
				about = append(about, text)
			}
		}
	}
	flush()
	c.About = strings.Join(about, " ")
	return c
}
