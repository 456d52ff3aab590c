package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// masked replaces hidden text.
const masked = "•••"

// maskEndpoint keeps only scheme, host and port.
func maskEndpoint(endpoint string) (shown string, hidden bool) {
	shown = endpointShown(endpoint)
	return shown, shown != endpoint
}

func endpointShown(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		return addressShown(endpoint)
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

// addressShown returns what may be shown of an endpoint without a scheme: the name of a
// file, or host:port. After host:port it masks a path. It always masks a query, a fragment,
// and a user name with or without a password.
func addressShown(endpoint string) string {
	shown := endpoint
	if i := strings.IndexAny(shown, "?#"); i >= 0 {
		shown = shown[:i+1] + masked
	}
	first, path, _ := strings.Cut(shown, "/")
	if i := strings.LastIndexByte(first, '@'); i >= 0 {
		shown = masked + shown[i:]
		first = masked + first[i:]
	}
	if strings.Contains(first, ":") && path != "" {
		return first + "/" + masked
	}
	return shown
}

// plainKeys are JSON keys whose texts contain no secrets.
var plainKeys = map[string]bool{
	"host": true, "name": true, "port": true, "scheme": true, "service": true, // of probes
	"protocol": true, "profiling": true, "requestLogTemplate": true, // of OBSERVABILITY_CONFIG
	// All keys from here on are keys of a zap configuration.
	"level": true, "encoding": true,
	"messageKey": true, "levelKey": true, "timeKey": true, "nameKey": true, "callerKey": true, "functionKey": true,
	"stacktraceKey": true, "lineEnding": true, "levelEncoder": true, "timeEncoder": true, "durationEncoder": true,
	"callerEncoder": true, "nameEncoder": true, "consoleSeparator": true,
}

// maskJSON returns the JSON with sorted keys, and hides the texts that may be secret. It
// shows the texts of plainKeys. It shows a path without its query. For an endpoint and
// for the output paths of a log, it shows the result of endpointShown. It hides all other
// texts, and all values of initialFields.
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

func (m *jsonMask) mask(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, x := range v {
			if key == "initialFields" {
				m.hidden = true
				v[k] = masked
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
		return endpointShown(text)
	case key == "path":
		path, _, hasQuery := strings.Cut(text, "?")
		if hasQuery {
			path += "?" + masked
		}
		return path
	}
	return masked
}
