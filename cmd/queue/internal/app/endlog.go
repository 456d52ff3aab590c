package app

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/queuegate/queuegate/pkg/gate"
)

// endLog logs how requests ended, as loudly as the outcome says: what the
// container answered and clients that left at debug.
type endLog struct {
	log      *zap.Logger
	debug    bool
	messages []string // by outcome, which is part of the message: by which repetitions are recognised
}

var endLevels = [...]zapcore.Level{
	gate.Debug: zap.DebugLevel, gate.Info: zap.InfoLevel, gate.Warn: zap.WarnLevel, gate.Error: zap.ErrorLevel,
}

func newEndLog(log *zap.Logger) *endLog {
	l := &endLog{log: log, debug: log.Core().Enabled(zap.DebugLevel)}
	for _, o := range gate.Outcomes() {
		l.messages = append(l.messages, "request ended: "+o.String())
	}
	return l
}

// note logs the end of x. On the request path it formats nothing unless the
// line goes out.
func (l *endLog) note(x *gate.Record) {
	if l == nil {
		return
	}
	level := x.Outcome.Meaning().Level
	if level == gate.Debug && !l.debug {
		return
	}
	if line := l.log.Check(endLevels[level], l.messages[x.Outcome]); line != nil {
		line.Write(zap.Int("status", x.Status), zap.ByteString("method", x.Method), zap.ByteString("target", x.Target),
			zap.Duration("took", x.Ended-x.Arrived))
	}
}
