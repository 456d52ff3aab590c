package requestlog

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// functions are those of text/template. and, or and call have no entry that
// can be used: the first two do not evaluate all of their arguments, and no
// value of a record is a function.
//
// It is a plain table, without closures, so that a start has nothing to make.
var functions = [...]struct {
	name string
	call func(args []any) (any, error)
}{
	{"and", nil},
	{"or", nil},
	{"call", func([]any) (any, error) { return nil, errors.New("call: nothing here is a function") }},
	{"eq", equal},
	{"ne", notEqual},
	{"lt", less},
	{"ge", notLess},
	{"gt", greater},
	{"le", notGreater},
	{"not", not},
	{"len", length},
	{"index", index},
	{"slice", slice},
	{"html", func(args []any) (any, error) { return escapeHTML.Replace(printAll(args)), nil }},
	{"js", func(args []any) (any, error) { return textJS(appendJS(nil, printAll(args))), nil }},
	{"urlquery", func(args []any) (any, error) { return url.QueryEscape(printAll(args)), nil }},
	{"print", func(args []any) (any, error) { return fmt.Sprint(plain(args)...), nil }},
	{"println", func(args []any) (any, error) { return textLine(fmt.Sprintln(plain(args)...)), nil }},
	{"printf", printf},
}

// callFunction calls one that the parser has let through, and and or aside.
func callFunction(name string, args []any) (any, error) {
	for i := range functions {
		if functions[i].name == name {
			return functions[i].call(args)
		}
	}
	return nil, fmt.Errorf("there is no function %s", name)
}

// textJS has gone through js. textLine ends in a newline of println.
type (
	textJS   string
	textLine string
)

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case textJS:
		return string(v), true
	case textLine:
		return string(v), true
	}
	return "", false
}

func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func asList(v any) (map[string][]string, list, bool) {
	switch v := v.(type) {
	case header:
		return v, nil, true
	case query:
		return v, nil, true
	case list:
		return nil, v, true
	}
	return nil, nil, false
}

// truth is text/template's: not the zero value, not empty.
func truth(v any) bool {
	if text, ok := asText(v); ok {
		return text != ""
	}
	if m, l, ok := asList(v); ok {
		return len(m)+len(l) > 0
	}
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case int64:
		return v != 0
	case float64:
		return v != 0
	}
	return true
}

// plain returns the arguments as fmt shall see them.
func plain(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = arg
		if text, ok := asText(arg); ok {
			out[i] = text
		} else if arg == nil {
			out[i] = ""
		} else if l, ok := arg.(list); ok && len(l) == 0 {
			out[i] = ""
		}
	}
	return out
}

// printAll is what the escaping functions escape.
func printAll(args []any) string { return fmt.Sprint(plain(args)...) }

func printf(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("printf takes a format")
	}
	format, ok := asText(args[0])
	if !ok {
		return nil, fmt.Errorf("printf takes a format, not %v", args[0])
	}
	return fmt.Sprintf(format, plain(args[1:])...), nil
}

func not(args []any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("not takes one argument, not %d", len(args))
	}
	return !truth(args[0]), nil
}

func length(args []any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("len takes one argument, not %d", len(args))
	}
	if text, ok := asText(args[0]); ok {
		return len(text), nil
	}
	if m, l, ok := asList(args[0]); ok {
		return len(m) + len(l), nil
	}
	return nil, fmt.Errorf("len of %v: it has none", args[0])
}

// index is x[i][j]: missing where text/template ends with an error.
func index(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("index takes an argument or more")
	}
	value := args[0]
	for _, at := range args[1:] {
		if value == nil {
			return nil, errMissing
		}
		m, l, _ := asList(value)
		text, isText := asText(value)
		n, isInt := asInt(at)
		key, isKey := asText(at)
		switch {
		case m != nil && isKey:
			value = list(m[key])
		case value != nil && l != nil && isInt && n >= 0 && n < int64(len(l)):
			value = l[n]
		case isText && isInt && n >= 0 && n < int64(len(text)):
			value = text[n]
		case isText && isInt, isListValue(value) && isInt, isMapValue(value) && isKey:
			return nil, errMissing
		default:
			return nil, fmt.Errorf("index %v of %v", at, value)
		}
	}
	return value, nil
}

func isListValue(v any) bool { _, ok := v.(list); return ok }

func isMapValue(v any) bool {
	switch v.(type) {
	case header, query:
		return true
	}
	return false
}

// slice is x[i:j], missing beyond the end.
func slice(args []any) (any, error) {
	if len(args) == 0 || len(args) > 3 {
		return nil, errors.New("slice takes a string or list, and at most two indices here")
	}
	text, isText := asText(args[0])
	l, isList := args[0].(list)
	if !isText && !isList {
		return nil, fmt.Errorf("slice of %v", args[0])
	}
	bounds := [2]int64{0, int64(len(text) + len(l))}
	for i, arg := range args[1:] {
		n, ok := asInt(arg)
		if !ok {
			return nil, fmt.Errorf("slice: %v is no index", arg)
		}
		if n < 0 || n > bounds[1] {
			return nil, errMissing
		}
		bounds[i] = n
	}
	if bounds[0] > bounds[1] {
		return nil, errMissing
	}
	if isText {
		return text[bounds[0]:bounds[1]], nil
	}
	return l[bounds[0]:bounds[1]], nil
}

// equal is eq: the first argument is one of the others.
func equal(args []any) (any, error) {
	if len(args) < 2 {
		return nil, errors.New("a comparison takes two arguments or more")
	}
	for _, other := range args[1:] {
		order, err := compare(args[0], other)
		if err != nil {
			return nil, err
		}
		if order == 0 {
			return true, nil
		}
	}
	return false, nil
}

func less(args []any) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("a comparison takes two arguments, not %d", len(args))
	}
	if _, ok := args[0].(bool); ok {
		return nil, errors.New("true and false have no order")
	}
	order, err := compare(args[0], args[1])
	return order < 0, err
}

func notEqual(args []any) (any, error) { return negated("ne", equal, args) }

func notLess(args []any) (any, error) { return negated("ge", less, args) }

func greater(args []any) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("gt takes two arguments, not %d", len(args))
	}
	return less([]any{args[1], args[0]})
}

func notGreater(args []any) (any, error) { return negated("le", greater, args) }

func negated(name string, f func([]any) (any, error), args []any) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%s takes two arguments, not %d", name, len(args))
	}
	v, err := f(args)
	return v != true, err
}

// compare orders values of one kind; nil equals only nil.
func compare(a, b any) (int, error) {
	x, xOK := asText(a)
	y, yOK := asText(b)
	if xOK && yOK {
		return strings.Compare(x, y), nil
	}
	m, mOK := asInt(a)
	n, nOK := asInt(b)
	if mOK && nOK {
		return order(m < n, m > n), nil
	}
	f, fOK := a.(float64)
	g, gOK := b.(float64)
	if fOK && gOK {
		return order(f < g, f > g), nil
	}
	p, pOK := a.(bool)
	q, qOK := b.(bool)
	if pOK && qOK {
		return order(!p && q, p && !q), nil
	}
	if a == nil || b == nil {
		return order(a == nil && b != nil, a != nil && b == nil), nil
	}
	return 0, fmt.Errorf("%v and %v cannot be compared", a, b)
}

func order(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}

func isWrittenAsFloat(text string) bool {
	hex := len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' && !strings.ContainsAny(text, "pP")
	return !hex && text[0] != '\'' && strings.ContainsAny(text, ".eEpP")
}

var escapeHTML = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;", `"`, "&#34;", `'`, "&#39;", "\x00", "\uFFFD")

// appendJS escapes for a string of JavaScript, as text/template's js does,
// where that is a string of JSON too. It is not for ', which js writes as \',
// for bytes that are no UTF-8, and beyond the basic plane.
func appendJS(b []byte, text string) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\\' || r == '"':
			b = append(b, '\\', byte(r))
		case r < ' ' || strings.ContainsRune(`'<>&=`, r) || r == utf8.RuneError && size == 1:
			b = appendU(b, r)
		case unicode.IsPrint(r):
			b = append(b, text[i:i+size]...)
		case r > 0xffff:
			r -= 0x10000
			b = appendU(appendU(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			b = appendU(b, r)
		}
		i += size
	}
	return b
}
