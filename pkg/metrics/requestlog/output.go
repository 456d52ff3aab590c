package requestlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// output builds the line of a template. Text of the template is unchanged; values are
// escaped so that a client can end neither the line nor, in a template that produces
// JSON, a string.
type output struct {
	b    []byte
	json bool // the template produces JSON

	inString bool // inside a JSON string
	escape   bool // and after a backslash
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

// value appends a value printed by an action.
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
			o.b = append(o.b, text...) // the text is valid JSON
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

// line returns the result without leading and trailing line breaks.
func (o *output) line() []byte {
	if o.json {
		return bytes.TrimSpace(o.b)
	}
	return bytes.Trim(o.b, "\r\n")
}

// appendVisible escapes control characters and characters that some readers treat as a
// line end. Tabs are kept.
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
