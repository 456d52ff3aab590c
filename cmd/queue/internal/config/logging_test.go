package config

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestTheLoggingConfigurationDeterminesTheFormatOfLines(t *testing.T) {
	const standard = `{"severity":"info","timestamp":"2026-01-02T03:04:05.000Z","caller":"a/b.go:7","message":"m","took":1.5}` + "\n"
	for _, c := range []struct{ config, namespace, want string }{
		{"", "", `{"severity":"info","timestamp":"2026-01-02T03:04:05.000Z","caller":"a/b.go:7","message":"m","took":"1.5s"}` + "\n"},
		{"", "default", `{"severity":"INFO","timestamp":"2026-01-02T03:04:05.000Z","caller":"a/b.go:7","message":"m","took":"1.5s"}` + "\n"},
		{`{}`, "default", standard},
		{knativeEnvironment["SERVING_LOGGING_CONFIG"], "default", standard},
		{`{"encoding":"","encoderConfig":{"levelEncoder":"","timeEncoder":"","durationEncoder":"","callerEncoder":"","nameEncoder":""}}`, "", standard},
		{`{"encoderConfig":{"timeEncoder":null,"callerEncoder":null}}`, "", standard},
		{`{"encoderConfig":{"levelEncoder":"capital","timeEncoder":"epoch","durationEncoder":"string","callerEncoder":"full","messageKey":"msg"}}`, "",
			`{"severity":"INFO","timestamp":1767323045,"caller":"/x/a/b.go:7","msg":"m","took":"1.5s"}` + "\n"},
		{`{"encoderConfig":{"timeEncoder":{"layout":"15h"}}}`, "", `{"severity":"info","timestamp":"03h","caller":"a/b.go:7","message":"m","took":1.5}` + "\n"},
	} {
		z := mustLoad(t, nil, map[string]string{"SERVING_LOGGING_CONFIG": c.config, "SERVING_NAMESPACE": c.namespace, "SERVING_LOGGING_LEVEL": "error"}).Logging()
		if c.namespace == "" {
			z = mustLoad(t, []string{"--logging-config=" + c.config, "--log-level=error"}, nil).Logging()
		}
		line, err := zapcore.NewJSONEncoder(z.EncoderConfig).EncodeEntry(zapcore.Entry{
			Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Message: "m",
			Caller: zapcore.EntryCaller{Defined: true, File: "/x/a/b.go", Line: 7},
		}, []zapcore.Field{zap.Duration("took", 1500*time.Millisecond)})
		if err != nil || line.String() != c.want || z.Encoding != "json" || z.Level.Level() != zap.ErrorLevel {
			t.Errorf("%s:\ngot  %swant %s%v, %s, %s", c.config, line, c.want, err, z.Encoding, z.Level)
		}
	}
	if z := mustLoad(t, nil, map[string]string{"SERVING_LOGGING_CONFIG": `{"encoding":"console","outputPaths":["stdout"],"initialFields":{"a":1}}`}).Logging(); z.Encoding != "console" ||
		len(z.OutputPaths) != 1 || z.OutputPaths[0] != "stdout" || len(z.InitialFields) != 1 {
		t.Errorf("got %+v", z)
	}
}
