package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errNotAccepted reports an invalid value without further details.
var errNotAccepted = errors.New("not accepted")

// form describes a kind to users.
type form struct {
	hint  string // placeholder of the value in --help; "" = the flag alone means true
	wants string // completes the sentence "want ..."
	// show returns the text without secrets, and whether secrets were hidden; nil =
	// hide the whole text.
	show func(text string) (string, bool)
}

// kind is a text format for values of type T.
type kind[T any] struct {
	form
	// parse parses a text that is not empty. Its error is errNotAccepted, or a detail
	// that follows form.wants in the message. An ignoredError is only a warning: the
	// returned value is valid.
	parse func(text string) (T, error)
	// format is the inverse of parse. It returns "" for an empty text, an empty list,
	// or another zero value that means unset.
	format func(T) string
}

// value parses and formats one field of a Config.
type value interface {
	about() *form
	set(text string) error
	text() string
	// fromJSON converts a JSON value to a text that can be passed to value.set. If the
	// JSON value has the wrong type, the text is empty, and the second result describes
	// the expected value.
	fromJSON(json.RawMessage) (text, want string)
	// isLive reports whether the setting can change while the gate runs.
	isLive() bool
}

type field[T any] struct {
	kind *kind[T]
	dst  *T
	live bool
}

func (k *kind[T]) bind(dst *T) value { return field[T]{k, dst, false} }

// live binds the kind to a field of the Config that can change while the gate runs. For
// other fields, k.bind is used.
func (k *kind[T]) live(dst *T) value { return field[T]{k, dst, true} }

func (f field[T]) isLive() bool { return f.live }

func (f field[T]) about() *form { return &f.kind.form }
func (f field[T]) text() string { return f.kind.format(*f.dst) }

func (f field[T]) set(text string) error {
	parsed, err := f.kind.parse(text)
	if isPartial := errors.As(err, new(ignoredError)); err == nil || isPartial {
		*f.dst = parsed
	}
	return err
}

func (f field[T]) fromJSON(raw json.RawMessage) (text, want string) {
	var typed T
	err := json.Unmarshal(raw, &typed)
	text, isText := any(typed).(string)
	switch {
	case err != nil && isText:
		return "", "a string"
	case err != nil:
		return "", f.kind.wants
	case isText:
		return text, ""
	}
	return string(raw), ""
}

func plain(text string) (string, bool) { return text, false }

// textKind returns a kind for text that is stored unchanged if check accepts it.
func textKind(hint, wants string, show func(string) (string, bool), check func(string) error) *kind[string] {
	return &kind[string]{form{hint, wants, show},
		func(text string) (string, error) { return text, check(text) },
		func(text string) string { return text }}
}

// simple adds an error to a parse function that reports only success or failure. The
// error for a failure is errNotAccepted.
func simple[T any](parse func(string) (T, bool)) func(string) (T, error) {
	return func(text string) (v T, err error) {
		parsed, ok := parse(text)
		if !ok {
			return v, errNotAccepted
		}
		return parsed, nil
	}
}

// accept adds an error to a check function that reports only whether a text is valid.
// The error for an invalid text is errNotAccepted.
func accept(ok func(string) bool) func(string) error {
	return func(text string) error {
		if !ok(text) {
			return errNotAccepted
		}
		return nil
	}
}

func anyText(string) bool { return true }

// wordKind returns a kind for one of the known words, regardless of case.
func wordKind(known ...string) *kind[string] { return choice(known, known) }

// either returns a kind for two words. The first word means false, the second true.
func either(no, yes string) *kind[bool] {
	return choice([]string{no, yes}, []bool{false, true})
}

// choice returns a kind for a fixed set of words. The kind parses the word known[i],
// regardless of case, and returns values[i]. It formats values[i] as known[i]. It formats
// any other value as "".
func choice[T comparable](known []string, values []T) *kind[T] {
	hint := strings.Join(known, "|")
	if len(known) > 3 {
		hint = hintName
	}
	return &kind[T]{form{hint, anyOf(known), plain},
		simple(func(text string) (v T, ok bool) {
			i := slices.IndexFunc(known, func(word string) bool { return strings.EqualFold(text, word) })
			if i < 0 {
				return v, false
			}
			return values[i], true
		}),
		func(v T) string {
			if i := slices.Index(values, v); i >= 0 {
				return known[i]
			}
			return ""
		}}
}

// Hints of words and choice.
const (
	hintName  = "NAME"
	hintLevel = "LEVEL"
)

// anyOf formats choices as "a, b or c".
func anyOf(choices []string) string {
	last := len(choices) - 1
	if last == 0 {
		return choices[0]
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

var yesNo = &kind[bool]{form{"", "true or false", plain},
	simple(func(text string) (bool, bool) {
		b, err := strconv.ParseBool(text)
		return b, err == nil
	}),
	strconv.FormatBool}

// element parses and formats one element of a list.
type element[T any] struct {
	parse  func(string) (T, bool)
	format func(T) string
}

// texts returns an element for lists of plain texts. The function ok reports whether a
// text is valid.
func texts(ok func(string) bool) element[string] {
	return element[string]{func(text string) (string, bool) { return text, ok(text) }, func(text string) string { return text }}
}

// list returns a kind for a comma-separated list without empty or repeated elements.
// Space around an element is ignored.
func list[T any](hint, wants string, e element[T]) *kind[[]T] {
	parse := func(text string) ([]T, error) {
		elements := strings.Split(text, ",")
		values := make([]T, len(elements))
		for i, element := range elements {
			elements[i] = strings.TrimSpace(element)
			var ok bool
			if values[i], ok = e.parse(elements[i]); !ok {
				if len(elements) == 1 {
					return nil, errNotAccepted
				}
				return nil, fmt.Errorf("%q is not", elements[i])
			}
			if slices.Contains(elements[:i], elements[i]) {
				return nil, fmt.Errorf("%q is repeated", elements[i])
			}
		}
		return values, nil
	}
	format := func(values []T) string {
		elements := make([]string, len(values))
		for i, v := range values {
			elements[i] = e.format(v)
		}
		return strings.Join(elements, ",")
	}
	return &kind[[]T]{form{hint, wants, plain}, parse, format}
}

// lenient skips empty elements, as Knative does.
func lenient[T any](k *kind[[]T]) *kind[[]T] {
	strict := k.parse
	k.parse = func(text string) ([]T, error) {
		var elements []string
		for element := range strings.SplitSeq(text, ",") {
			if strings.TrimSpace(element) != "" {
				elements = append(elements, element)
			}
		}
		if elements == nil {
			return nil, nil
		}
		return strict(strings.Join(elements, ","))
	}
	return k
}
