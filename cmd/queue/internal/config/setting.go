package config

import "strings"

// setting is one row of the table that drives Load, --help, --check and docs/configuration.md.
type setting struct {
	group string
	env   string
	flag  string // without the dashes
	// standard is the default, in the form that the parser takes; "" leaves the field at zero, or to what derive works out.
	standard string
	// standardNote tells people the default where standard cannot.
	standardNote string
	help         string
	field        func(*Config) fieldValue
}

// The hints of values that are one of several words.
const (
	hintName  = "NAME"
	hintLevel = "LEVEL"
)

// fieldValue reads and prints one field of a Config.
type fieldValue interface {
	// set parses text, which is never empty. After an error the field is as before. The error adds detail to accepts, and is
	// errNotAccepted where there is none.
	set(text string) error
	// text returns the value in a form that set reads back to the same value, "" if that is the zero value of a text or list.
	text() string
	// accepts completes the sentence "want ...".
	accepts() string
	// hint stands for the value in --help; "" means that the flag alone says true.
	hint() string
}

// settingIndex panics if no setting has that name.
func settingIndex(env string) int {
	for i := range settings {
		if settings[i].env == env {
			return i
		}
	}
	panic("BUG: no setting " + env)
}

// flagIndex returns the index of the setting with that flag, or -1.
func flagIndex(flag string) int {
	for i := range settings {
		if settings[i].flag == flag {
			return i
		}
	}
	return -1
}

// flagLike returns the flag whose environment name was written as a flag (--container-concurrency, --USER_PORT), or "".
func flagLike(name string) string {
	name = strings.ToUpper(strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"))
	for i := range settings {
		if settings[i].env == name || strings.ToUpper(strings.ReplaceAll(settings[i].flag, "-", "_")) == name {
			return "--" + settings[i].flag
		}
	}
	return ""
}

// shownStandard is the default as people read it.
func (s *setting) shownStandard() string {
	if s.standardNote != "" {
		return s.standardNote
	}
	return s.standard
}
