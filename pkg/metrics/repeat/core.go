package repeat

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// maxKinds limits the memory of the limiter. Beyond it, the least recently logged
// kind of message is forgotten.
const maxKinds = 256

// Field is the name of the field with the number of suppressed messages.
const Field = "repeated"

// NewCore wraps a core so that equal messages are logged once per interval. Messages
// are equal if they have the same level, logger and text. Debug messages, and messages
// above the level error, are always logged. At the end of an interval, and when Sync is
// called, the last suppressed message of each kind is logged. The field named Field counts
// the other suppressed ones. The parameter now is the clock; nil = time.Now. With another
// clock there is no timer: the end of an interval is noticed only when the next message
// arrives, even if that one is suppressed.
func NewCore(inner zapcore.Core, interval time.Duration, now func() time.Time) zapcore.Core {
	l := &limiter{interval: interval, now: now, kinds: make(map[kind]*state)}
	if now == nil {
		l.now, l.hasTimer = time.Now, true
	}
	return &core{Core: inner, limiter: l}
}

type core struct {
	zapcore.Core
	limiter *limiter // shared with all cores that the method With derives from this one
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.Core.With(fields), c.limiter}
}

// Check decides whether to log a message, before its fields are evaluated.
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level < zapcore.InfoLevel || entry.Level > zapcore.ErrorLevel {
		return c.Core.Check(entry, checked)
	}
	if !c.Enabled(entry.Level) {
		return checked
	}
	repeated, due, ok := c.limiter.pass(entry, c.Core)
	for _, s := range due {
		s.write()
	}
	switch {
	case !ok:
		return checked
	case repeated > 0:
		return c.Core.With([]zapcore.Field{count(repeated)}).Check(entry, checked)
	}
	return c.Core.Check(entry, checked)
}

func (c *core) Sync() error {
	for _, s := range c.limiter.takeAll() {
		s.write()
	}
	return c.Core.Sync()
}

func count(n int) zapcore.Field {
	return zapcore.Field{Key: Field, Type: zapcore.Int64Type, Integer: int64(n)}
}

// limiter decides which messages are logged. Its methods may be called concurrently.
type limiter struct {
	interval time.Duration
	now      func() time.Time
	hasTimer bool

	mu            sync.Mutex
	kinds         map[kind]*state
	numSuppressed int         // number of kinds with suppressed messages
	sweep         time.Time   // when the next summary may be due; only valid if numSuppressed > 0
	timer         *time.Timer // calls sweepDue; nil until a message is suppressed
	wakeAt        time.Time   // time for which the timer is set; zero = not set
}

type kind struct {
	level  zapcore.Level
	logger string
	text   string
}

// state is what the limiter remembers about a kind of message.
type state struct {
	suppressedUntil time.Time // messages are suppressed until this time
	suppressed      int       // number of messages suppressed since the last logged message
	last            summary   // last suppressed message; only valid if suppressed > 0
}

// summary is a message to log in place of the suppressed messages of one kind. It repeats
// the last of them without its fields, and states how many preceded it.
type summary struct {
	entry zapcore.Entry
	to    zapcore.Core
	more  int // number of earlier suppressed messages
}

func (s summary) write() {
	if checked := s.to.Check(s.entry, nil); checked != nil {
		if s.more > 0 {
			checked.Write(count(s.more))
		} else {
			checked.Write()
		}
	}
}

// pass decides whether to log a message. The last result reports the decision. If the
// message must be logged, the first result is the number of messages of the same kind
// that were suppressed before it. The second result contains summaries of other kinds.
// The caller must always log these summaries first, even if the message is suppressed.
func (l *limiter) pass(entry zapcore.Entry, to zapcore.Core) (repeated int, due []summary, ok bool) {
	now := l.now()
	k := kind{entry.Level, entry.LoggerName, entry.Message}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.kinds[k]
	// Suppress the message until s.suppressedUntil. But if that time is more than one
	// interval in the future, the clock was set back. In this case, log the message.
	if s != nil && now.Before(s.suppressedUntil) && s.suppressedUntil.Sub(now) <= l.interval {
		if s.suppressed == 0 {
			if l.numSuppressed == 0 || s.suppressedUntil.Before(l.sweep) {
				l.sweep = s.suppressedUntil
			}
			l.numSuppressed++
		}
		s.suppressed++
		s.last = summary{entry: entry, to: to}
		due = l.takeDue(now)
		l.arm(now)
		return 0, due, false
	}
	if s == nil {
		if len(l.kinds) >= maxKinds {
			due = l.forget()
		}
		s = new(state)
		l.kinds[k] = s
	}
	if s.suppressed > 0 {
		repeated = s.suppressed
		l.numSuppressed--
	}
	*s = state{suppressedUntil: now.Add(l.interval)}
	return repeated, append(due, l.takeDue(now)...), true
}

// arm schedules sweepDue if there are suppressed messages. It needs mu.
func (l *limiter) arm(now time.Time) {
	if !l.hasTimer || l.numSuppressed == 0 || !l.wakeAt.IsZero() && !l.sweep.Before(l.wakeAt) {
		return
	}
	l.wakeAt = l.sweep
	if l.timer == nil {
		l.timer = time.AfterFunc(l.sweep.Sub(now), l.sweepDue)
	} else {
		l.timer.Reset(l.sweep.Sub(now))
	}
}

func (l *limiter) sweepDue() {
	now := l.now()
	l.mu.Lock()
	due := l.takeDue(now)
	l.wakeAt = time.Time{}
	l.arm(now)
	l.mu.Unlock()
	for _, s := range due {
		s.write()
	}
}

// takeDue returns one summary for each kind that has suppressed messages and whose
// interval has ended. The summary of the oldest message comes first.
func (l *limiter) takeDue(now time.Time) []summary {
	if l.numSuppressed == 0 || now.Before(l.sweep) {
		return nil
	}
	var states []*state
	l.sweep = time.Time{}
	for _, s := range l.kinds {
		switch {
		case s.suppressed == 0:
		case !now.Before(s.suppressedUntil):
			states = append(states, s)
		case l.sweep.IsZero() || s.suppressedUntil.Before(l.sweep):
			l.sweep = s.suppressedUntil
		}
	}
	return l.take(states)
}

func (l *limiter) takeAll() []summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []*state
	for _, s := range l.kinds {
		if s.suppressed > 0 {
			states = append(states, s)
		}
	}
	return l.take(states)
}

func (l *limiter) take(states []*state) []summary {
	slices.SortFunc(states, func(a, b *state) int { return a.last.entry.Time.Compare(b.last.entry.Time) })
	var out []summary
	for _, s := range states {
		s.last.more = s.suppressed - 1
		out = append(out, s.last)
		s.suppressed, s.last = 0, summary{}
		l.numSuppressed--
	}
	return out
}

// forget removes the kind of message that was logged least recently. If messages of this
// kind were suppressed, it returns their summary.
func (l *limiter) forget() []summary {
	var oldest kind
	var found *state
	for k, s := range l.kinds {
		if found == nil || cmp.Or(s.suppressedUntil.Compare(found.suppressedUntil), cmp.Compare(k.text, oldest.text)) < 0 {
			oldest, found = k, s
		}
	}
	delete(l.kinds, oldest)
	if found.suppressed == 0 {
		return nil
	}
	return l.take([]*state{found})
}
