package config

import (
	"encoding/json"
	"io"
	"strings"
)

// The JSON of `queue help --json`.
type (
	// commandHelp describes a command. If Name is empty, it describes the gate itself.
	commandHelp struct {
		Name    string      `json:"name"`
		Summary string      `json:"summary,omitempty"`
		About   string      `json:"about"`
		Groups  []groupHelp `json:"groups"`
	}
	groupHelp struct {
		Title string     `json:"title,omitempty"`
		Flags []flagHelp `json:"flags"`
	}
	// flagHelp describes a flag and its variable. Hint is the placeholder of the value;
	// "" = a flag without a value.
	flagHelp struct {
		Name     string `json:"name"`
		Hint     string `json:"hint,omitempty"`
		Variable string `json:"variable,omitempty"`
		Default  string `json:"default,omitempty"`
		Help     string `json:"help"`
	}
)

// WriteHelpJSON prints all commands and settings. c is the Config that Load returns
// with CommandHelpJSON.
func WriteHelpJSON(w io.Writer, c *Config) error {
	gate := commandHelp{About: strings.Join(strings.Fields(helpAbout), " "), Groups: []groupHelp{{Flags: plainFlags}}}
	c.eachGroup(func(title string, group []setting) {
		gate.Groups = append(gate.Groups, newGroupHelp(title, group))
	})
	all := []commandHelp{gate}
	for i := range commands {
		command := &commands[i]
		help := commandHelp{Name: command.name, Summary: command.summary, About: command.about, Groups: []groupHelp{}}
		if settings := command.settingsOf(c, c.settings); len(settings) > 0 {
			help.Groups = append(help.Groups, newGroupHelp("", settings))
		}
		all = append(all, help)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	return encoder.Encode(struct {
		Commands []commandHelp `json:"commands"`
	}{all})
}

func newGroupHelp(title string, settings []setting) groupHelp {
	group := groupHelp{Title: title}
	for i := range settings {
		s := &settings[i]
		standard, _ := s.standardShown()
		help := flagHelp{Name: s.flag, Hint: s.value.about().hint, Default: standard, Help: s.helpText()}
		if !strings.HasPrefix(s.name, "--") {
			help.Variable = s.name
		}
		group.Flags = append(group.Flags, help)
	}
	return group
}
