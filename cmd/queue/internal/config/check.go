package config

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteCheck prints the configuration in effect: for each setting a line NAME=value  (source: flag, environment or default), in
// the order of the table, with a comment line before each group. A value with control characters or outer space is quoted.
func WriteCheck(w io.Writer, c *Config) error {
	var b strings.Builder
	group := ""
	for i := range settings {
		s := &settings[i]
		if s.group != group {
			if group != "" {
				b.WriteByte('\n')
			}
			group = s.group
			b.WriteString("# " + group + "\n")
		}
		b.WriteString(s.env + "=" + oneLine(s.field(c).text()) + "  (source: " + c.origins[i].String() + ")\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
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
