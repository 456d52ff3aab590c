package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// textValue is any text. It is for what the platform names (revisions, pods) and the gate only repeats.
type textValue string

func (v *textValue) set(text string) error { *v = textValue(text); return nil }
func (v *textValue) text() string          { return string(*v) }
func (*textValue) accepts() string         { return "any text" }
func (*textValue) hint() string            { return "TEXT" }

// choiceValue is one of a few words, in lower case; other cases are taken too.
type choiceValue struct {
	field   *string
	choices []string
}

func (v choiceValue) set(text string) error {
	for _, choice := range v.choices {
		if strings.EqualFold(text, choice) {
			*v.field = choice
			return nil
		}
	}
	return errNotAccepted
}
func (v choiceValue) text() string    { return *v.field }
func (v choiceValue) accepts() string { return anyOf(v.choices) }
func (v choiceValue) hint() string {
	if len(v.choices) > 3 {
		return hintName
	}
	return strings.Join(v.choices, "|")
}

// anyOf writes choices as "a, b or c".
func anyOf(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// listValue is a comma-separated list without empty or repeated elements. Space around an element is dropped.
type listValue struct {
	field *[]string
	want  string
	name  string
	check func(element string) error // errNotAccepted, or what is wrong with the element
}

func (v listValue) set(text string) error {
	elements := strings.Split(text, ",")
	for i, element := range elements {
		element = strings.TrimSpace(element)
		if err := v.check(element); err != nil {
			if errors.Is(err, errNotAccepted) && len(elements) == 1 {
				return err
			}
			return fmt.Errorf("%q is not", element)
		}
		if slices.Contains(elements[:i], element) {
			return fmt.Errorf("%q is there twice", element)
		}
		elements[i] = element
	}
	*v.field = elements
	return nil
}
func (v listValue) text() string    { return strings.Join(*v.field, ",") }
func (v listValue) accepts() string { return v.want }
func (v listValue) hint() string    { return v.name }

func pathList(field *[]string) fieldValue {
	return listValue{field, "paths that begin with a slash and have no query, separated by commas", "PATHS", checkPath}
}

func checkPath(path string) error {
	if path == "" || path[0] != '/' {
		return errNotAccepted
	}
	for i := 0; i < len(path); i++ {
		if c := path[i]; c <= ' ' || c >= 0x7f || c == '?' || c == '#' {
			return errNotAccepted
		}
	}
	return nil
}

func containerNameList(field *[]string) fieldValue {
	return listValue{field, "container names (a to z, 0 to 9 and -, at most 63 each), separated by commas", "NAMES", checkContainerName}
}

// checkContainerName asks for a DNS label, as Kubernetes does.
func checkContainerName(name string) error {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errNotAccepted
	}
	return nil
}
