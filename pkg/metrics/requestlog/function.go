package requestlog

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

// functions replace the functions index, slice, js and println of text/template. In
// text/template, the first two fail if a value is absent, and then no line is written. So
// a client could hide its request from the log by omitting a header field. The last two
// return types of this package here, so that the type output can recognize their results
// and escape them differently.
var functions = template.FuncMap{
	"index":   index,
	"slice":   slice,
	"js":      func(args ...any) textJS { return textJS(appendJS(nil, printedAll(args))) },
	"println": func(args ...any) textLine { return textLine(fmt.Sprintln(args...)) },
}

// textJS is a result of js. textLine is a result of println.
type (
	textJS   string
	textLine string
)

// printed formats a value as text/template does, but formats a missing value as "".
func printed(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	r := reflect.ValueOf(v)
	for {
		switch r.Kind() {
		case reflect.Invalid:
			return ""
		case reflect.String:
			return r.String()
		case reflect.Slice:
			if r.Len() == 0 {
				return ""
			}
		case reflect.Chan, reflect.Func, reflect.UnsafePointer:
			if r.IsNil() {
				return ""
			}
		case reflect.Pointer:
			if r.IsNil() {
				return ""
			}
			switch r.Interface().(type) {
			case fmt.Stringer, error:
			default:
				r = r.Elem()
				continue
			}
		}
		return fmt.Sprint(r.Interface())
	}
}

func printedAll(args []any) string {
	if len(args) == 1 {
		return printed(args[0])
	}
	return fmt.Sprint(args...)
}

// index returns x[i][j], or a zero value if there is no such element.
func index(item reflect.Value, at ...reflect.Value) (reflect.Value, error) {
	item = inner(item)
	for _, i := range at {
		i = inner(i)
		var kind reflect.Type
		switch item.Kind() {
		case reflect.Invalid:
			return item, nil
		case reflect.Map:
			key := item.Type().Key()
			if i.Kind() != key.Kind() {
				return item, fmt.Errorf("a key must be a %s", key)
			}
			if v := item.MapIndex(i.Convert(key)); v.IsValid() {
				item = inner(v)
				continue
			}
			kind = item.Type().Elem()
		case reflect.Slice, reflect.Array, reflect.String:
			if !i.IsValid() || !i.CanInt() {
				return item, errors.New("an index must be a whole number")
			}
			if n := i.Int(); n >= 0 && n < int64(item.Len()) {
				item = inner(item.Index(int(n)))
				continue
			}
			if item.Kind() == reflect.String {
				return reflect.Value{}, nil
			}
			kind = item.Type().Elem()
		default:
			return item, fmt.Errorf("%s has no index", item.Type())
		}
		item = reflect.Zero(kind)
	}
	return item, nil
}

// slice returns x[i:j], with i and j limited to the length of x.
func slice(item reflect.Value, at ...reflect.Value) (reflect.Value, error) {
	item = inner(item)
	if !item.IsValid() {
		return item, nil
	}
	if item.Kind() != reflect.String && item.Kind() != reflect.Slice || len(at) > 2 {
		return item, fmt.Errorf("slice takes a string or a list, not %s, and at most two indices", item.Type())
	}
	bounds := [2]int{0, item.Len()}
	for n, i := range at {
		if i = inner(i); !i.IsValid() || !i.CanInt() {
			return item, errors.New("an index must be a whole number")
		}
		bounds[n] = int(min(max(i.Int(), 0), int64(item.Len())))
	}
	return item.Slice(min(bounds[0], bounds[1]), bounds[1]), nil
}

// inner dereferences interfaces and pointers.
func inner(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// appendJS appends text, escaped as the function js of text/template escapes it, for use
// inside a JSON string. The original result is not valid JSON if the text contains ',
// invalid UTF-8 or unprintable characters above U+FFFF. For these, appendJS writes \u
// escapes that JSON allows.
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
