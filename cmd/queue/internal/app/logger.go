package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/lines"
	"github.com/queuegate/queuegate/pkg/metrics/repeat"
)

// repeatInterval is the interval at which a repeated message is logged.
const repeatInterval = 10 * time.Second

// limited returns log with a limit on repeated messages.
func limited(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return repeat.NewCore(core, repeatInterval, nil)
	}))
}

// Log is the gate's log. Its lines are queued in a bounded queue, so logging
// never blocks.
type Log struct {
	*zap.Logger
	lines    *lines.Writer
	terminal *terminal // nil: the log is not a terminal
}

// Close writes the queued lines, until ctx ends.
func (l *Log) Close(ctx context.Context) error { return l.lines.Close(ctx) }

// logQueueBytes is the maximum size of queued lines.
const logQueueBytes = 1 << 20

// OpenLog opens the log that SERVING_LOGGING_CONFIG describes. The default is stderr,
// with readable lines on a terminal, otherwise with Knative's JSON.
func OpenLog(cfg *config.Config) (*Log, error) {
	c := cfg.Logging()
	t := newTerminal(cfg)
	if t != nil {
		t.form(&c)
	}
	sink, _, err := zap.Open(c.OutputPaths...)
	if err != nil {
		return nil, fmt.Errorf("SERVING_LOGGING_CONFIG: %w", err)
	}
	name, fields := origin(cfg)
	if t != nil {
		fields = nil
	}
	out := lines.New(lines.Config{Writer: sink, QueueBytes: logQueueBytes})
	return &Log{loggerOf(&c, out).Named(name).With(fields...), out, t}, nil
}

// origin returns the logger name and the fields that identify the source of each line.
// Under Knative they are the same as queue-proxy's.
func origin(cfg *config.Config) (name string, fields []zap.Field) {
	id := cfg.Identity
	if cfg.Knative {
		if id.Namespace != "" || id.Revision != "" {
			fields = append(fields, zap.String("knative.dev/key", id.Namespace+"/"+id.Revision))
		}
		return "queueproxy", append(fields, zap.String("knative.dev/pod", id.Pod))
	}
	for _, f := range []struct{ key, value string }{
		{"namespace", id.Namespace}, {"configuration", id.Configuration}, {"revision", id.Revision}, {"pod", id.Pod},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.key, f.value))
		}
	}
	return "queue", fields
}

// loggerOf creates the logger that c describes, as zap.Config.Build does. Unlike Build,
// it writes to out and adds no stack traces.
func loggerOf(c *zap.Config, out zapcore.WriteSyncer) *zap.Logger {
	encoder := zapcore.NewJSONEncoder(c.EncoderConfig)
	if c.Encoding == "console" {
		encoder = zapcore.NewConsoleEncoder(c.EncoderConfig)
	}
	core := zapcore.NewCore(encoder, out, c.Level)
	if s := c.Sampling; s != nil {
		core = zapcore.NewSamplerWithOptions(core, time.Second, s.Initial, s.Thereafter)
	}
	options := []zap.Option{zap.ErrorOutput(out), zap.WithCaller(!c.DisableCaller)}
	if c.Development {
		options = append(options, zap.Development())
	}
	for _, key := range slices.Sorted(maps.Keys(c.InitialFields)) {
		options = append(options, zap.Fields(zap.Any(key, c.InitialFields[key])))
	}
	return zap.New(core, options...)
}

// endLog logs how requests ended, at the level of the outcome.
type endLog struct {
	log   *zap.Logger
	debug bool
	// messages contains the log message of each outcome, indexed by the outcome. The
	// messages differ, so that the limit on repeated messages applies to each outcome
	// separately.
	messages []string

	terminal *terminal   // if not nil, all requests are logged
	all      *zap.Logger // log without the limit on repeated messages
}

var endLevels = [...]zapcore.Level{
	gate.Debug: zap.DebugLevel, gate.Info: zap.InfoLevel, gate.Warn: zap.WarnLevel, gate.Error: zap.ErrorLevel,
}

func newEndLog(log *zap.Logger) *endLog {
	l := &endLog{log: log, debug: log.Core().Enabled(zap.DebugLevel), messages: make([]string, gate.OutcomeSlots)}
	for _, o := range gate.Outcomes() {
		l.messages[o] = "request ended: " + o.String() + ": " + o.Meaning().Means
	}
	return l
}

// note logs the end of x. It formats nothing unless the line is logged.
func (l *endLog) note(x *gate.Record) {
	if l == nil {
		return
	}
	level := x.Outcome.Meaning().Level
	if l.terminal != nil {
		if at := max(endLevels[level], zap.InfoLevel); l.all.Core().Enabled(at) {
			l.all.Log(at, l.terminal.request(x))
		}
		return
	}
	if level == gate.Debug && !l.debug {
		return
	}
	if line := l.log.Check(endLevels[level], l.messages[x.Outcome]); line != nil {
		line.Write(zap.Int("status", x.Status), zap.ByteString("method", x.Method), zap.ByteString("target", x.Target),
			zap.Stringer("peer", x.Peer), zap.Duration("queueWait", rounded(x.QueueWait())), zap.Duration("took", rounded(x.Took())))
	}
}
