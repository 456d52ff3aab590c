package app

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/queuegate/queuegate/pkg/gate"
)

// endLog logs how requests ended, as loudly as the outcome says: what the
// container answered and clients that left at debug. A log can block and the
// engines must not, so lines are written elsewhere; when that does not keep
// up, some are left out.
type endLog struct {
	log   *zap.Logger
	debug bool
	lines chan end
	stop  chan struct{}
	ended chan struct{}
}

// end is what a line says.
type end struct {
	outcome        gate.Outcome
	status         int
	method, target string
	took           time.Duration
}

const endLogLines = 64

var endLevels = [...]zapcore.Level{
	gate.Debug: zap.DebugLevel, gate.Info: zap.InfoLevel, gate.Warn: zap.WarnLevel, gate.Error: zap.ErrorLevel,
}

func newEndLog(log *zap.Logger) *endLog {
	l := &endLog{
		log: log, debug: log.Core().Enabled(zap.DebugLevel),
		lines: make(chan end, endLogLines), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go l.write()
	return l
}

// note takes note of the end of x.
func (l *endLog) note(x *gate.Exchange) {
	if l == nil || x.Outcome.Meaning().Level == gate.Debug && !l.debug {
		return
	}
	select {
	case l.lines <- end{x.Outcome, x.Status, string(x.Method), string(x.Target), x.Ended - x.Arrived}:
	default:
	}
}

func (l *endLog) write() {
	defer close(l.ended)
	for {
		select {
		case e := <-l.lines:
			l.line(e)
		case <-l.stop:
			for {
				select {
				case e := <-l.lines:
					l.line(e)
				default:
					return
				}
			}
		}
	}
}

func (l *endLog) line(e end) {
	m := e.outcome.Meaning()
	// The outcome is part of the message: repetitions are told by that.
	l.log.Log(endLevels[m.Level], "request ended: "+m.Name, zap.Int("status", e.status),
		zap.String("method", e.method), zap.String("target", e.target), zap.Duration("took", e.took))
}

// close writes what is left.
func (l *endLog) close() {
	close(l.stop)
	<-l.ended
}
