package repeat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// fixture is a logger with a fake clock.
type fixture struct {
	*zap.Logger
	lines *observer.ObservedLogs
	now   time.Time
}

func newFixture(level zapcore.Level) *fixture {
	f := &fixture{now: time.Unix(1_000_000, 0)}
	inner, lines := observer.New(level)
	f.lines = lines
	f.Logger = zap.New(NewCore(inner, 10*time.Second, func() time.Time { return f.now }), zap.WithClock(f), zap.WithFatalHook(zapcore.WriteThenPanic))
	return f
}

func (f *fixture) Now() time.Time                         { return f.now }
func (f *fixture) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// taken returns the messages logged since the last call of taken. If a message has the
// field "repeated" with the value 2, taken appends " +2" to its text.
func (f *fixture) taken() []string {
	var out []string
	for _, line := range f.lines.TakeAll() {
		text := line.Message
		if n, ok := line.ContextMap()[Field]; ok {
			text += fmt.Sprintf(" +%d", n)
		}
		out = append(out, text)
	}
	return out
}

func (f *fixture) want(t *testing.T, want ...string) {
	t.Helper()
	if got := f.taken(); !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

func TestTheFirstMessageIsLoggedAndTheNextOneHasTheCount(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	f.want(t, "a")
	for range 5 {
		f.Warn("a")
	}
	f.now = f.now.Add(10*time.Second - 1)
	f.Warn("a")
	f.want(t)
	f.now = f.now.Add(1)
	f.Warn("a")
	f.want(t, "a +6")
	f.Warn("a")
	f.now = f.now.Add(9 * time.Second)
	f.Warn("a")
	f.want(t)
	f.now = f.now.Add(time.Second)
	f.Warn("a")
	f.want(t, "a +2")
	f.now = f.now.Add(time.Hour)
	f.Warn("a")
	f.want(t, "a")
}

func TestMessagesDifferByLevelLoggerAndTextButNotByFields(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	f.Warn("b")
	f.Error("a")
	f.Named("other").Warn("a")
	f.want(t, "a", "b", "a", "a")
	f.Warn("a", zap.Int("n", 2))
	f.With(zap.Int("n", 3)).Warn("a")
	f.want(t)
}

func TestDebugMessagesAndFatalErrorsAreAlwaysLogged(t *testing.T) {
	f := newFixture(zap.DebugLevel)
	for range 3 {
		f.Debug("d")
		f.DPanic("p")
		func() {
			defer func() { _ = recover() }()
			f.Panic("x")
		}()
		func() {
			defer func() { _ = recover() }()
			f.Fatal("f")
		}()
	}
	f.want(t, "d", "p", "x", "f", "d", "p", "x", "f", "d", "p", "x", "f")
}

func TestMessagesOfADisabledLevelAreNotCounted(t *testing.T) {
	f := newFixture(zap.ErrorLevel)
	f.Warn("a")
	f.Warn("a")
	_ = f.Sync()
	f.want(t)
}

func TestADueCountIsLoggedWithTheNextMessage(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	f.Warn("a")
	f.now = f.now.Add(time.Second)
	last := f.now
	f.With(zap.String("who", "last")).Warn("a", zap.Int("gone", 1))
	f.want(t, "a")
	f.now = f.now.Add(8 * time.Second)
	f.Info("b")
	f.want(t, "b") // not due yet
	f.now = f.now.Add(time.Second)
	f.Info("b") // suppressed
	lines := f.lines.All()
	f.want(t, "a +1")
	if len(lines) != 1 || !lines[0].Time.Equal(last) || lines[0].Level != zap.WarnLevel ||
		lines[0].ContextMap()["who"] != "last" || len(lines[0].Context) != 2 {
		t.Errorf("%+v", lines)
	}
	f.Warn("a")
	f.want(t, "a")
}

func TestSuppressedMessagesAreLoggedAtTheEndOfTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, lines := observer.New(zap.InfoLevel)
		f := &fixture{Logger: zap.New(NewCore(inner, 10*time.Second, nil)), lines: lines}
		f.Warn("a")
		f.Warn("a")
		time.Sleep(4 * time.Second)
		f.Warn("b")
		for range 3 {
			f.Warn("b")
		}
		f.want(t, "a", "b")
		time.Sleep(6*time.Second + time.Millisecond)
		f.want(t, "a")
		time.Sleep(4 * time.Second)
		f.want(t, "b +2")
		time.Sleep(time.Hour)
		f.want(t)
		f.Warn("a")
		f.want(t, "a")

		time.Sleep(5 * time.Second)
		for range 2 {
			f.Warn("c") // suppressed before "a", but due after it
		}
		f.Warn("a")
		f.want(t, "c")
		time.Sleep(5*time.Second + time.Millisecond)
		f.want(t, "a")
		time.Sleep(5 * time.Second)
		f.want(t, "c")
	})
}

func TestSyncLogsPendingCounts(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	f.Warn("b")
	f.Warn("b")
	f.now = f.now.Add(1)
	f.Warn("a")
	f.Warn("a")
	_ = f.Sync()
	f.want(t, "a", "b", "b", "a +1")
	_ = f.Sync()
	f.want(t)
}

func TestTheLimiterRemembersAtMostMaxKindsAndLogsTheCountOfAForgottenKind(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("first")
	f.Warn("first")
	f.Warn("first")
	for i := range 3 * maxKinds {
		f.now = f.now.Add(time.Microsecond)
		f.Warn(fmt.Sprint(i))
	}
	got := f.taken()
	if len(got) != 3*maxKinds+2 || !slices.Contains(got, "first +1") {
		t.Errorf("%d lines", len(got))
	}
	c := f.Core().(*core)
	if n := len(c.limiter.kinds); n != maxKinds || c.limiter.numSuppressed != 0 {
		t.Errorf("%d kinds, %d held", n, c.limiter.numSuppressed)
	}
}

func TestAClockSetBackDoesNotSilenceTheLog(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	f.Warn("a")
	f.now = f.now.Add(-time.Hour)
	f.Warn("a")
	f.want(t, "a", "a +1")
}

func TestLinesAndCountsAddUpToTheMessages(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := newFixture(zap.InfoLevel)
		sent := map[string]int{}
		for range 2000 {
			f.now = f.now.Add(time.Duration(r.ExpFloat64() * float64(300*time.Millisecond)))
			text := fmt.Sprint(int(r.ExpFloat64() * 60))
			f.Warn(text)
			sent[text]++
			for k, s := range f.Core().(*core).limiter.kinds {
				if s.suppressed > 0 && !f.now.Before(s.suppressedUntil) {
					t.Fatalf("seed %d: the count of %q is overdue", seed, k.text)
				}
			}
			if r.IntN(500) == 0 {
				_ = f.Sync()
			}
		}
		_ = f.Sync()
		last := map[string]time.Time{}
		for _, line := range f.lines.TakeAll() {
			sent[line.Message]--
			if n, ok := line.ContextMap()[Field]; ok {
				sent[line.Message] -= int(n.(int64))
			}
			if line.Time.Before(last[line.Message]) {
				t.Errorf("seed %d: %q out of order", seed, line.Message)
			}
			last[line.Message] = line.Time
		}
		for text, n := range sent {
			if n != 0 {
				t.Errorf("seed %d: %d of %q are missing", seed, n, text)
			}
		}
		if c := f.Core().(*core); c.limiter.numSuppressed != 0 {
			t.Errorf("seed %d: %d held", seed, c.limiter.numSuppressed)
		}
	}
}

func TestConcurrentMessagesLoseNoCount(t *testing.T) {
	inner, lines := observer.New(zap.InfoLevel)
	log := zap.New(NewCore(inner, 50*time.Microsecond, nil))
	const loops, each = 8, 500
	var all sync.WaitGroup
	for range loops {
		all.Go(func() {
			for i := range each {
				log.Warn(fmt.Sprint(i % 3))
			}
		})
	}
	all.Wait()
	_ = log.Sync()
	total := 0
	for _, line := range lines.TakeAll() {
		total++
		if n, ok := line.ContextMap()[Field]; ok {
			total += int(n.(int64))
		}
	}
	if total != loops*each {
		t.Errorf("%d of %d messages accounted for", total, loops*each)
	}
}

func TestSuppressingAMessageDoesNotAllocate(t *testing.T) {
	f := newFixture(zap.InfoLevel)
	f.Warn("a")
	if n := testing.AllocsPerRun(100, func() { f.Warn("a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
