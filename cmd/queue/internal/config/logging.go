package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var logLevels = []string{"debug", "info", "warn", "error", "dpanic", "panic", "fatal"}

// logLevel is a level of zap; "warning" means "warn".
var logLevel = func() *kind[string] {
	k := wordKind(logLevels...)
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

// encoders are the names of zap's encoders, the default last.
var encoders = []struct {
	key   string
	known []string
}{
	{"levelEncoder", []string{"capital", "capitalColor", "color", "lowercase"}},
	{"timeEncoder", []string{"rfc3339nano", "RFC3339Nano", "rfc3339", "RFC3339", "iso8601", "ISO8601", "millis", "nanos", "epoch"}},
	{"durationEncoder", []string{"string", "nanos", "ms", "seconds"}},
	{"callerEncoder", []string{"full", "short"}},
	{"nameEncoder", []string{"full"}},
}

// Logging returns the zap configuration of the gate's own log.
func (c *Config) Logging() zap.Config {
	z, _, _ := readLogging(c.LoggingConfig) // Load has reported errors
	if c.LoggingConfig == "" {
		z.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
		if c.Knative {
			z.EncoderConfig.EncodeLevel = zapcore.CapitalLevelEncoder
		}
	}
	if level, err := zap.ParseAtomicLevel(c.LogLevel); err == nil {
		z.Level = level
	}
	return z
}

func standardLogging() zap.Config {
	return zap.Config{
		Level:       zap.NewAtomicLevelAt(zap.InfoLevel),
		Encoding:    "json",
		OutputPaths: []string{"stderr"},
		EncoderConfig: zapcore.EncoderConfig{
			TimeKey: "timestamp", LevelKey: "severity", NameKey: "logger", CallerKey: "caller",
			MessageKey: "message", StacktraceKey: "stacktrace", LineEnding: zapcore.DefaultLineEnding,
			EncodeTime: zapcore.ISO8601TimeEncoder, EncodeLevel: zapcore.LowercaseLevelEncoder,
			EncodeDuration: zapcore.SecondsDurationEncoder, EncodeCaller: zapcore.ShortCallerEncoder,
		},
	}
}

// readLogging parses a zap configuration in JSON. A field that is absent has its value
// in standardLogging; the same is true of an empty encoding or encoder. The result
// level is the level in the JSON, or "" if there is none. The error names all problems.
func readLogging(text string) (z zap.Config, level string, err error) {
	z = standardLogging()
	if text == "" {
		return z, "", nil
	}
	var outermost, encoderConfig map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &outermost); err != nil {
		return z, "", jsonFault(err)
	}
	_ = json.Unmarshal(outermost["encoderConfig"], &encoderConfig) // a value of the wrong type is reported below
	var faults []string
	check := func(from map[string]json.RawMessage, key string, known []string) {
		var name string
		if json.Unmarshal(from[key], &name) != nil || slices.Contains(known, name) {
			return
		}
		if delete(from, key); name != "" {
			faults = append(faults, fmt.Sprintf("%s %q is not one of %s", key, name, strings.Join(known, ", ")))
		}
	}
	var name string
	if json.Unmarshal(outermost["level"], &name) == nil && name != "" {
		level, _ = logLevel.parse(name)
	}
	if level != "" {
		delete(outermost, "level")
	}
	check(outermost, "level", logLevels)
	check(outermost, "encoding", []string{"json", "console"})
	for _, e := range encoders {
		check(encoderConfig, e.key, e.known)
	}
	if raw := string(encoderConfig["timeEncoder"]); raw != "" && raw != "null" && raw[0] != '"' {
		var custom struct{ Layout string }
		if json.Unmarshal([]byte(raw), &custom) != nil || custom.Layout == "" {
			faults = append(faults, "timeEncoder is neither a name nor an object with a layout")
		}
	}
	if len(faults) > 0 {
		return z, "", errors.New(strings.Join(faults, "; "))
	}
	if encoderConfig != nil {
		outermost["encoderConfig"], _ = json.Marshal(encoderConfig)
	}
	cleaned, _ := json.Marshal(outermost)
	return z, level, jsonFault(json.Unmarshal(cleaned, &z))
}
