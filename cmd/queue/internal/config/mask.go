package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// masked stands for what is not shown.
const masked = "•••"

// Shown is a setting for people who look at a running gate.
type Shown struct {
	Group, Name string
	Value       string // without what could be a secret
	Empty       string // what an empty Value means, if it is not obvious
	Source      string // flag, environment or default
	Masked      bool   // Value hides something
}

// Shown returns all settings in the order of the table.
func (c *Config) Shown() []Shown {
	all := make([]Shown, len(settings))
	for i := range settings {
		s := &settings[i]
		value, hidden := s.shown(c)
		all[i] = Shown{Group: s.group, Name: s.env, Value: value, Empty: s.standardNote, Source: c.origins[i].String(), Masked: hidden}
	}
	return all
}

// shown is the value of a setting for people who look at a running gate: as --check prints it, but without what could be a secret.
// Types of settings that are not known here are masked whole.
//
//	endpoints   scheme, host and port are shown; user, path and query are masked
//	JSON        numbers, words of its vocabulary and names of headers are shown; values of headers, queries of paths and all other
//	            texts are masked
//	ROOT_CA     masked: it is no secret, but no reading either
func (s *setting) shown(c *Config) (text string, hidden bool) {
	field := s.field(c)
	text = field.text()
	if text == "" {
		return "", false
	}
	original := text
	switch field.(type) {
	case *portValue, *optionalPortValue, *boolValue, *rateValue, countValue, durationValue, *secondsValue, wholeSecondsValue,
		choiceValue, *logLevelValue, tlsNamesValue, *addressValue, *hostValue, *directoryValue, *fileValue, *socketValue, listValue, *templateValue:
	case *textValue:
		if s.env == "ROOT_CA" {
			text = masked
		}
	case *endpointValue:
		text = maskEndpoint(text)
	case *readinessProbeValue, *proberMapValue, *observabilityValue, *loggingConfigValue:
		return maskJSON(text)
	default:
		text = masked
	}
	return oneLine(text), text != original
}

// maskEndpoint leaves scheme, host and port.
func maskEndpoint(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		return endpoint // host:port, or a word
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return masked
	}
	text := u.Scheme + "://"
	if u.User != nil {
		text += masked + "@"
	}
	text += u.Host
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return text + "/" + masked
	}
	return text + u.Path
}

// plainKeys are the keys in JSON whose texts come from a vocabulary or name something.
var plainKeys = map[string]bool{
	"host": true, "name": true, "port": true, "scheme": true, "service": true, // of probes
	"protocol": true, "profiling": true, "requestLogTemplate": true, // of OBSERVABILITY_CONFIG
	"level": true, "encoding": true, // of zap, with those of encoderConfig
	"messageKey": true, "levelKey": true, "timeKey": true, "nameKey": true, "callerKey": true, "functionKey": true,
	"stacktraceKey": true, "lineEnding": true, "levelEncoder": true, "timeEncoder": true, "durationEncoder": true,
	"callerEncoder": true, "nameEncoder": true, "consoleSeparator": true,
}

// maskJSON reports whether it hid something. Keys come out in alphabetical order.
func maskJSON(text string) (shown string, hidden bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return masked, true
	}
	m := jsonMask{}
	value = m.mask("", value)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return masked, true
	}
	return strings.TrimSuffix(b.String(), "\n"), m.hidden
}

type jsonMask struct{ hidden bool }

// mask returns what is shown of the value of a key.
func (m *jsonMask) mask(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, x := range v {
			if key == "initialFields" {
				m.hidden = true
				v[k] = masked // anybody's own
				continue
			}
			v[k] = m.mask(k, x)
		}
	case []any:
		for i, x := range v {
			v[i] = m.mask(key, x)
		}
	case string:
		shown := maskText(key, v)
		m.hidden = m.hidden || shown != v
		return shown
	}
	return value
}

func maskText(key, text string) string {
	switch {
	case text == "" || plainKeys[key]:
		return text
	case key == "endpoint" || key == "outputPaths" || key == "errorOutputPaths":
		return maskEndpoint(text)
	case key == "path":
		path, _, hasQuery := strings.Cut(text, "?")
		if hasQuery {
			path += "?" + masked
		}
		return path
	}
	return masked
}
