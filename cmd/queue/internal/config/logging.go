package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var logLevels = []string{"debug", "info", "warn", "error", "dpanic", "panic", "fatal"}

// logLevel is a level of zap, whose "warning" is "warn".
var logLevel = func() *kind[string] {
	k := words(logLevels...)
	k.hint = hintLevel
	known := k.parse
	k.parse = func(text string) (string, error) {
		if strings.EqualFold(text, "warning") {
			text = "warn"
		}
		return known(text)
	}
	return k
}()

// zapConfig is the part of zap's configuration whose values can be wrong.
type zapConfig struct {
	Level             *string `json:"level"`
	Development       bool    `json:"development"`
	DisableCaller     bool    `json:"disableCaller"`
	DisableStacktrace bool    `json:"disableStacktrace"`
	Sampling          *struct {
		Initial    int `json:"initial"`
		Thereafter int `json:"thereafter"`
	} `json:"sampling"`
	Encoding      string `json:"encoding"`
	EncoderConfig struct {
		MessageKey       string          `json:"messageKey"`
		LevelKey         string          `json:"levelKey"`
		TimeKey          string          `json:"timeKey"`
		NameKey          string          `json:"nameKey"`
		CallerKey        string          `json:"callerKey"`
		FunctionKey      string          `json:"functionKey"`
		StacktraceKey    string          `json:"stacktraceKey"`
		SkipLineEnding   bool            `json:"skipLineEnding"`
		LineEnding       string          `json:"lineEnding"`
		LevelEncoder     string          `json:"levelEncoder"`
		TimeEncoder      json.RawMessage `json:"timeEncoder"`
		DurationEncoder  string          `json:"durationEncoder"`
		CallerEncoder    string          `json:"callerEncoder"`
		NameEncoder      string          `json:"nameEncoder"`
		ConsoleSeparator string          `json:"consoleSeparator"`
	} `json:"encoderConfig"`
	OutputPaths      []string                   `json:"outputPaths"`
	ErrorOutputPaths []string                   `json:"errorOutputPaths"`
	InitialFields    map[string]json.RawMessage `json:"initialFields"`
}

// The encoders by name, the default last: zap takes it for every name it does not know, so people write it by its own name.
var (
	levelEncoders    = []string{"capital", "capitalColor", "color", "lowercase"}
	timeEncoders     = []string{"rfc3339nano", "RFC3339Nano", "rfc3339", "RFC3339", "iso8601", "ISO8601", "millis", "nanos", "epoch"}
	durationEncoders = []string{"string", "nanos", "ms", "seconds"}
	callerEncoders   = []string{"full", "short"}
	nameEncoders     = []string{"full"}
)

// readZapConfig returns the level that the configuration names, "" for none, and all that is wrong with it in one error.
func readZapConfig(text string) (level string, err error) {
	var c zapConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return "", jsonFault(err)
	}
	var faults []string
	check := func(key, name string, known []string) {
		if name != "" && !slices.Contains(known, name) {
			faults = append(faults, fmt.Sprintf("%s %q is not one of %s", key, name, strings.Join(known, ", ")))
		}
	}
	if c.Level != nil && *c.Level != "" {
		if level, err = logLevel.parse(*c.Level); err != nil {
			check("level", *c.Level, logLevels)
		}
	}
	check("encoding", c.Encoding, []string{"json", "console"})
	e := &c.EncoderConfig
	check("levelEncoder", e.LevelEncoder, levelEncoders)
	if timeEncoder, ok := readTimeEncoder(e.TimeEncoder); ok {
		check("timeEncoder", timeEncoder, timeEncoders)
	} else {
		faults = append(faults, "timeEncoder is neither a name nor an object with a layout")
	}
	check("durationEncoder", e.DurationEncoder, durationEncoders)
	check("callerEncoder", e.CallerEncoder, callerEncoders)
	check("nameEncoder", e.NameEncoder, nameEncoders)
	if len(faults) > 0 {
		return "", errors.New(strings.Join(faults, "; "))
	}
	return level, nil
}

// readTimeEncoder returns "" for what names no encoder: nothing, or a layout of its own.
func readTimeEncoder(text json.RawMessage) (name string, ok bool) {
	if len(text) == 0 || string(text) == "null" {
		return "", true
	}
	if text[0] == '{' {
		var custom struct {
			Layout string `json:"layout"`
		}
		return "", json.Unmarshal(text, &custom) == nil && custom.Layout != ""
	}
	return name, json.Unmarshal(text, &name) == nil
}
