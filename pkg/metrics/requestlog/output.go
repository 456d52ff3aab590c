package requestlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// output collects the line of a template. What the template itself says goes
// out as it is; values are escaped so that a client can end neither the line
// nor, in a template that makes JSON, a string of it.
type output struct {
	b    []byte
	json bool // the template makes JSON

	inString bool // within a JSON string
	escape   bool // and after a backslash
}

// Write takes text of the template from the library.
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

// value is what an action printed.
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
			o.b = append(o.b, text...) // which is JSON as well
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

// isScalar tells a whole JSON number, string or word.
func isScalar(text string) bool {
	return text != "" && text[0] != '{' && text[0] != '[' && json.Valid([]byte(text))
}

// line returns what was rendered without the line breaks around it.
func (o *output) line() []byte {
	if o.json {
		return bytes.TrimSpace(o.b)
	}
	return bytes.Trim(o.b, "\r\n")
}

// appendVisible writes control characters, and what else ends a line for some
// readers, as escapes. Tabs stay.
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
