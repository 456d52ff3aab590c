package requestlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// output builds the line of a template. It copies the text of the template, but in JSON
// it replaces line breaks between strings by spaces. It escapes all values, so that a
// value from a client cannot end the line, or the JSON string that contains the value.
type output struct {
	b    []byte
	json bool // the template produces JSON

	inString bool // the output so far ends inside a JSON string
	escape   bool // the output so far ends with a backslash inside a JSON string
}

// Write appends text of the template.
func (o *output) Write(text []byte) (int, error) {
	if len(o.b) > maxLine {
		return 0, errTooLong
	}
	o.literal(text)
	return len(text), nil
}

func (o *output) literal(text []byte) {
	if !o.json {
		o.b = append(o.b, text...)
		return
	}
	for _, c := range text {
		switch {
		case o.escape:
			o.escape = false
		case o.inString && c == '\\':
			o.escape = true
		case c == '"':
			o.inString = !o.inString
		case !o.inString && (c == '\n' || c == '\r'):
			c = ' '
		}
		o.b = append(o.b, c)
	}
}

// value appends a value that an action of the template prints.
func (o *output) value(v any) {
	text := printed(v)
	switch {
	case !o.json:
		_, line := v.(textLine)
		if line {
			text = strings.TrimSuffix(text, "\n")
		}
		o.b = appendVisible(o.b, text)
		if line {
			o.b = append(o.b, '\n')
		}
	case o.inString:
		if o.escape {
			o.b, o.escape = append(o.b, '\\'), false
		}
		if _, ok := v.(textJS); ok {
			o.b = append(o.b, text...) // js has already escaped it
		} else {
			o.b = appendJSONText(o.b, text)
		}
	default:
		if scalar := strings.TrimSpace(text); isScalar(scalar) {
			o.b = append(o.b, scalar...)
		} else {
			o.b = appendJSON(o.b, text)
		}
	}
}

// isScalar reports whether text is a JSON number, string or literal.
func isScalar(text string) bool {
	return text != "" && text[0] != '{' && text[0] != '[' && json.Valid([]byte(text))
}

// line returns the output without line breaks at its beginning and end.
func (o *output) line() []byte {
	if o.json {
		return bytes.TrimSpace(o.b)
	}
	return bytes.Trim(o.b, "\r\n")
}

// appendVisible appends text. It escapes Unicode line ends and all control characters
// except tabs.
func appendVisible(b []byte, text string) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ' && r != '\t' || r == 0x7f:
			b = append(b, '\\', 'x', upperHex[r>>4], upperHex[r&15])
		case breaksLine(r):
			b = appendU(b, r)
		default:
			b = append(b, text[i:i+size]...)
		}
		i += size
	}
	return b
}
