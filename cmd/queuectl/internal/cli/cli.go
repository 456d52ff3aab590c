// Package cli generates man pages and completions for the gate's binary from the output
// of `queue help --json`. It does not use cobra's generators. Their completions call the
// program at each completion, and their man pages show neither the groups of the flags
// nor the environment variables.
package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// Flag is a flag of the gate, with its environment variable.
type Flag struct {
	Name, Hint, Variable, Default, Help string
}

// Values returns the possible values, for completion.
func (f *Flag) Values() []string {
	if strings.Contains(f.Hint, "|") {
		return strings.Split(f.Hint, "|")
	}
	return nil
}

// Group is a group of flags with a title.
type Group struct {
	Title string
	Flags []Flag
}

// Command is a command of the gate. The command with an empty name is the gate itself.
type Command struct {
	Name, Summary, About string
	Groups               []Group
}

// Program is the gate's binary.
type Program struct {
	Version  string
	Commands []Command // the first has no name and stands for the gate itself
}

// Read runs the binary to get its commands and settings.
func Read(path string) (*Program, error) {
	text, err := exec.Command(path, "help", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("%s help --json: %w", path, err)
	}
	p := new(Program)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s help --json: %w", path, err)
	}
	version, err := exec.Command(path, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", path, err)
	}
	p.Version = strings.TrimSpace(string(version))
	if len(p.Commands) < 2 {
		return nil, fmt.Errorf("%s help --json: lists no commands of a gate", path)
	}
	return p, nil
}
