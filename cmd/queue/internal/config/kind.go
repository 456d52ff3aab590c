package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errNotAccepted says that a value is not what its setting accepts, and that there is no more to say.
var errNotAccepted = errors.New("not accepted")

// form is what people read about values of a kind.
type form struct {
	hint  string // stands for the value in --help; "" means that the flag alone says true
	wants string // completes the sentence "want ..."
	// show returns what is shown of the text of a value, and whether that hides something; nil hides all.
	show func(text string) (string, bool)
}

// kind is a way to write values of a type.
type kind[T any] struct {
	form
	// parse parses text, which is never empty. Its error adds a detail to form.wants; errNotAccepted adds none. With an
	// ignoredError, the returned value lacks the ignored parts and is still used.
	parse func(text string) (T, error)
	// format writes what parse reads back to the same value, "" for the zero value of a text or list.
	format func(T) string
}

// value reads and prints one field of a Config.
type value interface {
	about() *form
	set(text string) error
	text() string
	// fromJSON returns the text for set, or what is wanted instead.
	fromJSON(json.RawMessage) (text, want string)
	// isLive reports whether the setting can change while the gate runs.
	isLive() bool
}

type field[T any] struct {
	kind *kind[T]
	at   *T
	live bool
}

func (k *kind[T]) at(to *T) value { return field[T]{k, to, false} }

// live is like at for a setting that can change while the gate runs. Config.Live reads
// it from files, and internal/app applies it.
func (k *kind[T]) live(to *T) value { return field[T]{k, to, true} }

func (f field[T]) isLive() bool { return f.live }

func (f field[T]) about() *form { return &f.kind.form }
func (f field[T]) text() string { return f.kind.format(*f.at) }

func (f field[T]) set(text string) error {
	parsed, err := f.kind.parse(text)
	if isPartial := errors.As(err, new(ignoredError)); err == nil || isPartial {
		*f.at = parsed
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

// textKind is text that is kept as given once check accepts it.
func textKind(hint, wants string, show func(string) (string, bool), check func(string) error) *kind[string] {
	return &kind[string]{form{hint, wants, show},
		func(text string) (string, error) { return text, check(text) },
		func(text string) string { return text }}
}

// simple is the parse of a kind whose errors have no more to say.
func simple[T any](parse func(string) (T, bool)) func(string) (T, error) {
	return func(text string) (v T, err error) {
		parsed, ok := parse(text)
		if !ok {
			return v, errNotAccepted
		}
		return parsed, nil
	}
}

// accept is the check of a text kind whose errors have no more to say.
func accept(ok func(string) bool) func(string) error {
	return func(text string) error {
		if !ok(text) {
			return errNotAccepted
		}
		return nil
	}
}

func anyText(string) bool { return true }

// words is one of a few words, in lower case; other cases are taken too.
func words(known ...string) *kind[string] { return choice(known, known) }

// either is one of two words for false and true.
func either(no, yes string) *kind[bool] {
	return choice([]string{no, yes}, []bool{false, true})
}

// choice is one of a few words, each of which stands for a value. A value that has none is printed as "".
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

// The hints of values that are one of several words.
const (
	hintName  = "NAME"
	hintLevel = "LEVEL"
)

// anyOf writes choices as "a, b or c".
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

// element reads and prints one element of a list.
type element[T any] struct {
	parse  func(string) (T, bool)
	format func(T) string
}

// texts makes elements of what ok accepts.
func texts(ok func(string) bool) element[string] {
	return element[string]{func(text string) (string, bool) { return text, ok(text) }, func(text string) string { return text }}
}

// list is a comma-separated list without empty or repeated elements. Space around an element is dropped.
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
				return nil, fmt.Errorf("%q is there twice", elements[i])
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

// lenient skips empty elements, as Knative does in its lists.
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
