package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AnnotationPrefix is the prefix of annotations that set live settings.
const AnnotationPrefix = "queuegate.dev/"

// otherAnnotations are annotations that begin with AnnotationPrefix but set no live
// setting, so readLive ignores them. This list omits the prefix. "queuectl inject" writes
// queuegate.dev/injected, and "queuectl uninject" reads it.
var otherAnnotations = []string{"injected"}

// maxLiveText is the maximum size of a file of live settings. Kubernetes allows 256 KiB
// of annotations, and escaping can make them four times as long.
const maxLiveText = 1 << 20

// LiveFiles holds the contents of the files that set live settings; "" = no file.
type LiveFiles struct {
	Annotations string
	Settings    string
}

type override struct {
	text   string
	source source
	key    string // name of the setting in messages
}

// Live returns a copy of c with the live settings in files. Other settings keep their
// values. The error joins all problems.
func (c *Config) Live(files LiveFiles) (*Config, error) {
	overrides := map[string]override{}
	problems := []error{
		c.readLive(overrides, fromFile, files.Settings),
		c.readLive(overrides, fromAnnotation, files.Annotations), // last, because annotations take precedence
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	live, _, _, err := loadWith(c.inputs, overrides)
	if err != nil {
		return nil, err
	}
	live.UserPort = c.UserPort // USER_PORT=auto was resolved after Load
	return live, nil
}

// settingName returns the name of the setting that has the file's path.
func (s source) settingName() string {
	if s == fromFile {
		return "SETTINGS_FILE"
	}
	return "ANNOTATIONS_FILE"
}

// readLive parses the lines KEY="VALUE" of a file of live settings into overrides. The
// Kubernetes downward API writes annotations in this format. KEY is AnnotationPrefix
// and the flag of the setting; in SETTINGS_FILE, it may also be the flag alone. Keys
// with another prefix are ignored, and in ANNOTATIONS_FILE also keys without a prefix.
func (c *Config) readLive(overrides map[string]override, src source, text string) error {
	if len(text) > maxLiveText {
		return fmt.Errorf("%s: want at most %d bytes", src.settingName(), maxLiveText)
	}
	var problems []error
	seen := map[string]bool{}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		name, hasPrefix := strings.CutPrefix(key, AnnotationPrefix)
		if !hasPrefix && (src == fromAnnotation || strings.Contains(key, "/")) || hasPrefix && slices.Contains(otherAnnotations, name) {
			continue
		}
		value, isQuoted := unquote(strings.TrimSpace(value))
		if !ok || !isQuoted {
			problems = append(problems, fmt.Errorf("%s: line %d: want KEY=\"VALUE\"", src.settingName(), number))
			continue
		}
		if src == fromFile {
			key = "SETTINGS_FILE " + key
		}
		s, err := c.liveSetting(name)
		if err == nil && seen[name] {
			err = errors.New("want it once")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s=%s: %w", key, quoteShort(value), err))
			continue
		}
		seen[name] = true
		overrides[s.name] = override{value, src, key}
	}
	return errors.Join(problems...)
}

// unquote returns the value of a quoted Go string, or text unchanged.
func unquote(text string) (string, bool) {
	if !strings.HasPrefix(text, "\"") {
		return text, true
	}
	value, err := strconv.Unquote(text)
	return value, err == nil
}

// liveSetting returns the live setting with this flag, if SETTINGS_ALLOW permits it.
func (c *Config) liveSetting(flag string) (*setting, error) {
	var live []word
	for i := range c.settings {
		s := &c.settings[i]
		switch {
		case s.flag != flag:
		case !s.value.isLive():
			return nil, errors.New("not a live setting: only a flag or " + s.name + " sets it, at the start")
		case !c.allowsLive(flag):
			return nil, errors.New("SETTINGS_ALLOW does not have it")
		default:
			return s, nil
		}
		if s.value.isLive() {
			live = append(live, newWord(s.flag))
		}
	}
	if i := newWord(flag).closest(live, 8); i >= 0 {
		return nil, fmt.Errorf("not a setting; did you mean %s?", live[i].text)
	}
	return nil, errors.New("not a setting")
}

// Changes lists the live settings that differ between c and next, as NAME=VALUE with the
// value in next and its origin.
func (c *Config) Changes(next *Config) (changes []string) {
	for i := range c.settings {
		before, after := &c.settings[i], &next.settings[i]
		if !before.value.isLive() {
			continue
		}
		was, _ := before.shown()
		is, _ := after.shown()
		if was != is {
			changes = append(changes, after.name+"="+is+" ("+after.origin()+")")
		}
	}
	return changes
}

func (c *Config) allowsLive(flag string) bool {
	return len(c.SettingsAllow) == 0 || slices.Contains(c.SettingsAllow, flag)
}

// LiveFlags returns the flags of all live settings, in the order of the table.
func LiveFlags() (flags []string) {
	for _, s := range table(new(Config)) {
		if s.value.isLive() {
			flags = append(flags, s.flag)
		}
	}
	return flags
}

// checkLive checks SETTINGS_ALLOW.
func (l *loader) checkLive() {
	if slices.Equal(l.SettingsAllow, []string{"none"}) {
		return
	}
	live := LiveFlags()
	for _, name := range l.SettingsAllow {
		if !slices.Contains(live, name) {
			l.problem("SETTINGS_ALLOW", "SETTINGS_ALLOW=%s: want flags of live settings (%s), or none: %q is not one",
				quoteShort(strings.Join(l.SettingsAllow, ",")), strings.Join(live, ", "), name)
		}
	}
}
