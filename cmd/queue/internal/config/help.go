package config

import (
	"io"
	"strings"
)

// helpWidth is the widest that a line of help is, in bytes; the text is ASCII.
const helpWidth = 100

const helpHead = `queue stands in front of a container in its own pod: it admits, counts and forwards requests, and
answers the platform's probes itself.

Usage:
  queue [flags]           run the gate; "queue --user-port 8080" is enough
  queue drain [flags]     start a drain of the gate that runs beside, and wait until it ends

  --check                 check the configuration, print what is in effect, and exit
  --version               print version, commit and Go version, and exit
  --help                  print this, and exit

Every setting is an environment variable and a flag. The flag beats the variable, which beats the
default [in brackets]; an empty variable counts as unset. DURATION is such as 1.5s, 300ms, 2m or
plain seconds; SECONDS is a plain number. Exit codes: 0 done, 1 failed, 2 wrong configuration.
`

// WriteHelp prints the text of --help.
func WriteHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(helpHead)
	group := ""
	for i := range settings {
		s := &settings[i]
		if s.group != group {
			group = s.group
			b.WriteString("\n" + group + "\n")
		}
		writeSettingHelp(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSettingHelp puts flag, variable and default on a first line and what the setting means below.
func writeSettingHelp(b *strings.Builder, s *setting) {
	var field Config
	value := s.field(&field)
	flag := "  --" + s.flag
	if hint := value.hint(); hint != "" {
		flag += " " + hint
	}
	const column = 40
	b.WriteString(flag)
	b.WriteString(strings.Repeat(" ", max(2, column-len(flag))))
	b.WriteString(s.env)
	used := max(column, len(flag)+2) + len(s.env)
	shown := " [" + s.shownStandard() + "]"
	if used+len(shown) > helpWidth {
		shown = "\n" + strings.Repeat(" ", column) + shown[1:]
	}
	b.WriteString(shown + "\n")
	help := s.help
	switch value.hint() {
	case hintName, hintLevel:
		help += " " + value.hint() + " is " + value.accepts() + "."
	}
	writeWrapped(b, "        ", help)
}

func writeWrapped(b *strings.Builder, indent, text string) {
	used := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case used == 0:
			b.WriteString(indent)
			used = len(indent)
		case used+1+len(word) > helpWidth:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	b.WriteByte('\n')
}
