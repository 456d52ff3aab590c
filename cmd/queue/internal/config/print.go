package config

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
)

// Shown returns all settings for the status page, with possible secrets hidden.
func (c *Config) Shown() (groups []statuspage.Group) {
	c.eachGroup(func(title string, group []setting) {
		shown := statuspage.Group{Title: title}
		for i := range group {
			s := &group[i]
			value, hidden := s.shown()
			empty, exact := s.standardShown()
			if exact {
				empty = ""
			}
			shown.Settings = append(shown.Settings, statuspage.Setting{Name: s.name, Value: value, Empty: empty, Source: s.source.String(), Masked: hidden})
		}
		groups = append(groups, shown)
	})
	return groups
}

// shown returns the value with possible secrets hidden.
func (s *setting) shown() (text string, hidden bool) {
	text = s.value.text()
	switch {
	case text == "":
		return "", false
	case s.value.about().show == nil:
		return masked, true
	}
	text, hidden = s.value.about().show(text)
	return oneLine(text), hidden
}

// WriteCheck prints the configuration in effect: for each setting a line NAME=value
// with the source of the value, and a comment line before each group.
func WriteCheck(w io.Writer, c *Config) error {
	var b strings.Builder
	c.eachGroup(func(title string, group []setting) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("# " + title + "\n")
		for i := range group {
			s := &group[i]
			b.WriteString(s.name + "=" + oneLine(s.value.text()) + "  (source: " + s.origin() + ")\n")
		}
		if title == otelTitle {
			c.writeExports(&b)
		}
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// origin returns the source of a value, with its variable or path if it differs from
// the name of the setting.
func (s *setting) origin() string {
	if s.found == "" || s.found == s.name {
		return s.source.String()
	}
	return s.source.String() + ", " + s.found
}

// eachGroup calls do with the settings of each group.
func (c *Config) eachGroup(do func(title string, group []setting)) {
	for from, to := 0, 0; from < len(c.settings); from = to {
		title := c.settings[from].group
		for to < len(c.settings) && c.settings[to].group == title {
			to++
		}
		do(title, c.settings[from:to])
	}
}

func oneLine(text string) string {
	plain := utf8.ValidString(text) && text == strings.TrimSpace(text) && !strings.HasPrefix(text, `"`)
	for _, r := range text {
		plain = plain && strconv.IsPrint(r)
	}
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// helpWidth is the maximum width of a line of help, in bytes; the text is ASCII.
const helpWidth = 100

const helpAbout = `queue stands in front of a container in its own pod: it admits, counts and forwards requests, and
answers the platform's probes itself.
`

const helpHead = helpAbout + `
Usage:
  queue [flags]                 run the gate; "queue --user-port 8080" is enough
  queue [flags] -- COMMAND ...  run the gate and, behind it, an application with PORT=USER_PORT;
                                "queue --user-port auto -- COMMAND" finds its port
  queue COMMAND [flags]

Commands:
`

// plainFlags are the flags of the gate that are not settings.
var plainFlags = []flagHelp{
	{Name: "check", Help: "check the configuration, print what is in effect, and exit"},
	{Name: "version", Help: "print version, commit and Go version, and exit"},
	{Name: "help", Help: "print this help, or the help of the preceding command, and exit"},
}

const helpFlags = `
Every setting is an environment variable and a flag. The flag beats the variable, which beats the
default [in brackets]; an empty variable counts as unset. DURATION is such as 1.5s, 300ms, 2m or
plain seconds; SECONDS is a plain number. Exit codes: 0 done, 1 failed, 2 wrong configuration, and
with an application its own, or 128 + the signal that ended it.
`

// WriteHelp prints the text of --help. c is the Config that Load returns with
// CommandHelp.
func WriteHelp(w io.Writer, c *Config) error {
	var b strings.Builder
	if c.Subject != "" {
		commandNamed(c.Subject).writeHelp(&b, c.settings)
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString(helpHead)
	for _, c := range commands {
		usage := c.name + " " + c.usage
		b.WriteString("  " + usage + strings.Repeat(" ", 24-len(usage)) + c.summary + "\n")
	}
	b.WriteByte('\n')
	for _, f := range plainFlags {
		b.WriteString("  --" + f.Name + strings.Repeat(" ", 22-len(f.Name)) + f.Help + "\n")
	}
	b.WriteString(helpFlags)
	c.eachGroup(func(title string, group []setting) {
		b.WriteString("\n" + title + "\n")
		for i := range group {
			group[i].writeHelp(&b)
		}
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHelp writes a line with flag, variable and default, and the help text below it.
func (s *setting) writeHelp(b *strings.Builder) {
	flag := "  --" + s.flag
	if s.value.about().hint != "" {
		flag += " " + s.value.about().hint
	}
	const column = 40
	first := flag + strings.Repeat(" ", max(2, column-len(flag)))
	if !strings.HasPrefix(s.name, "--") {
		first += s.name
	}
	standard, _ := s.standardShown()
	standard = " [" + standard + "]"
	if first[len(first)-1] == ' ' {
		standard = standard[1:]
	} else if len(first)+len(standard) > helpWidth {
		standard = "\n" + strings.Repeat(" ", column) + standard[1:]
	}
	b.WriteString(first + standard + "\n")
	writeWrapped(b, "        ", s.helpText())
}

// helpText returns the help of the setting, with the meaning of its hint.
func (s *setting) helpText() string {
	form := s.value.about()
	if form.hint == hintName || form.hint == hintLevel {
		return s.help + " " + form.hint + " is " + form.wants + "."
	}
	return s.help
}

func writeWrapped(b *strings.Builder, indent, text string) {
	line := indent
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == indent:
			line += word
		case len(line)+1+len(word) > helpWidth:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}
