package repeat

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// maxKinds bounds the kinds of messages that are remembered. Beyond it, the
// one that went out longest ago is forgotten, its count going out.
const maxKinds = 256

// Field is the name of the field that has the count.
const Field = "repeated"

// NewCore wraps a core so that messages of the same level, logger and text go
// out once in an interval. Fields do not tell messages apart. Debug messages
// pass, as who asks for them wants all; so do those that end the process. now
// is time.Now if nil. Sync lets out what is held back.
func NewCore(inner zapcore.Core, interval time.Duration, now func() time.Time) zapcore.Core {
	if now == nil {
		now = time.Now
	}
	return &core{Core: inner, limiter: &limiter{interval: interval, now: now, kinds: make(map[kind]*state)}}
}

type core struct {
	zapcore.Core
	limiter *limiter // shared by all that With made
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.Core.With(fields), c.limiter}
}

// Check holds a message back before its fields are looked at.
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

// limiter decides which messages go out. It may be used by several goroutines
// at once.
type limiter struct {
	interval time.Duration
	now      func() time.Time

	mu            sync.Mutex
	kinds         map[kind]*state
	numSuppressed int       // kinds with a count
	sweep         time.Time // when counts may be due; only if held > 0
}

type kind struct {
	level  zapcore.Level
	logger string
	text   string
}

// state is what is known of a kind of message.
type state struct {
	until      time.Time // held back before this
	suppressed int       // since the last that went out
	last       summary   // the last of those; only if held > 0
}

// summary stands for messages that were held back, and is the last of them but
// for its fields.
type summary struct {
	entry zapcore.Entry
	to    zapcore.Core
	more  int // beside itself
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

// pass says if the message goes out, with how many more of its kind, and which
// summaries must be written before it.
func (l *limiter) pass(entry zapcore.Entry, to zapcore.Core) (repeated int, due []summary, ok bool) {
	now := l.now()
	k := kind{entry.Level, entry.LoggerName, entry.Message}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.kinds[k]
	if s != nil && now.Before(s.until) && s.until.Sub(now) <= l.interval { // else the clock was set back
		if s.suppressed == 0 {
			if l.numSuppressed == 0 || s.until.Before(l.sweep) {
				l.sweep = s.until
			}
			l.numSuppressed++
		}
		s.suppressed++
		s.last = summary{entry: entry, to: to}
		return 0, l.takeDue(now), false
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
	*s = state{until: now.Add(l.interval)}
	return repeated, append(due, l.takeDue(now)...), true
}

// takeDue returns the summaries of kinds whose interval has passed, oldest
// first.
func (l *limiter) takeDue(now time.Time) []summary {
	if l.numSuppressed == 0 || now.Before(l.sweep) {
		return nil
	}
	var taken []*state
	l.sweep = time.Time{}
	for _, s := range l.kinds {
		switch {
		case s.suppressed == 0:
		case !now.Before(s.until):
			taken = append(taken, s)
		case l.sweep.IsZero() || s.until.Before(l.sweep):
			l.sweep = s.until
		}
	}
	return l.take(taken)
}

func (l *limiter) takeAll() []summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []*state
	for _, s := range l.kinds {
		if s.suppressed > 0 {
			taken = append(taken, s)
		}
	}
	return l.take(taken)
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

// forget makes room for a kind.
func (l *limiter) forget() []summary {
	var oldest kind
	var found *state
	for k, s := range l.kinds {
		if found == nil || cmp.Or(s.until.Compare(found.until), cmp.Compare(k.text, oldest.text)) < 0 {
			oldest, found = k, s
		}
	}
	delete(l.kinds, oldest)
	if found.suppressed == 0 {
		return nil
	}
	return l.take([]*state{found})
}
