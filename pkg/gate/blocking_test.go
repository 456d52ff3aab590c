package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// arrived is a request of g that has arrived now.
func arrived(g *Gate, born time.Time) *Blocking {
	b := NewBlocking(g, func() int64 { return int64(time.Since(born)) + 1 })
	b.Arrive()
	return b
}

// takenGate is a gate with one slot, which is taken.
func takenGate(t *testing.T, c Config) *Gate {
	t.Helper()
	c.ConcurrencyLimit = 1
	g := &Gate{Config: c}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Admission.TryBegin()
	return g
}

// wantRefused fails unless b is refused with o after so long, and holds
// nothing then.
func wantRefused(t *testing.T, b *Blocking, ctx context.Context, o Outcome, after time.Duration) {
	t.Helper()
	start := time.Now()
	got, refused := b.Admit(ctx)
	if !refused || got != o || time.Since(start) != after {
		t.Errorf("refused %v with %s after %v, want %s after %v", refused, got, time.Since(start), o, after)
	}
	b.End(got)
	if b.State() != StateIdle || b.gate.Drain.Requests() != 0 {
		t.Errorf("in state %d, %d requests open", b.State(), b.gate.Drain.Requests())
	}
}

// silent observes nothing.
type silent struct{}

func (silent) Begin(*Record)    {}
func (silent) End(*Record)      {}
func (silent) Rejected(Outcome) {}
func (silent) Probed(*Record)   {}

func TestARequestThatFindsASlotReadsTheClockTwice(t *testing.T) {
	g := &Gate{Config: Config{ConcurrencyLimit: 1, Observer: silent{}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	readings := int64(0)
	b := NewBlocking(g, func() int64 { readings++; return readings })
	b.Arrive()
	b.Admit(t.Context())
	b.Forward()
	b.End(Served)
	if readings != 2 || b.QueueWait() != 0 || b.UpstreamTime() != b.Took() || b.Took() != 1 {
		t.Errorf("%d readings, waited %d, upstream %d of %d", readings, b.QueueWait(), b.UpstreamTime(), b.Took())
	}
}

func TestAdmitIsRefusedWhenAWaitEnds(t *testing.T) {
	in := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(parent context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(parent)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}
	}
	for name, c := range map[string]struct {
		cfg   Config
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		o     Outcome
		after time.Duration
	}{
		"no place in the queue": {Config{}, context.WithCancel, QueueFull, 0},
		"the longest wait":      {Config{QueueCapacity: 1, QueueMaxWait: 3 * time.Second, RequestTimeout: 4 * time.Second}, context.WithCancel, QueueWaitExpired, 3 * time.Second},
		"the request clock":     {Config{QueueCapacity: 1, QueueMaxWait: time.Minute, RequestTimeout: 4 * time.Second}, context.WithCancel, RequestTimeout, 4 * time.Second},
		"the client leaves":     {Config{QueueCapacity: 1, QueueMaxWait: time.Minute}, in(time.Second), ClientGone, time.Second},
		"the deadline of a context": {Config{QueueCapacity: 1}, func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(p, time.Second)
		}, RequestTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := takenGate(t, c.cfg)
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				wantRefused(t, arrived(g, time.Now()), ctx, c.o, c.after)
				wantCounts(t, g.Admission, 1, 0)
			})
		})
	}
}

func TestAdmitWithoutABoundLastsUntilASlotIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 1})
		start := time.Now()
		time.AfterFunc(24*time.Hour, g.Admission.End)
		b := arrived(g, start)
		if o, refused := b.Admit(t.Context()); refused || time.Since(start) != 24*time.Hour || b.State() != StateConnecting {
			t.Errorf("refused %v with %s after %v, in state %d", refused, o, time.Since(start), b.State())
		}
		wantCounts(t, g.Admission, 1, 0)
		b.Forward()
		b.End(Served)
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestAClientThatHasLeftTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{})
		g.Admission.End()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantRefused(t, arrived(g, time.Now()), ctx, ClientGone, 0)
		wantCounts(t, g.Admission, 0, 0)
	})
}

// leftMeanwhile is a context that is done on the second look at it, without a
// channel that tells.
type leftMeanwhile struct {
	context.Context
	looks int
}

func (c *leftMeanwhile) Done() <-chan struct{} { return nil }

func (c *leftMeanwhile) Err() error {
	if c.looks++; c.looks > 1 {
		return context.Canceled
	}
	return nil
}

func TestASlotThatCameTogetherWithTheEndOfTheClientIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 1})
		time.AfterFunc(time.Second, g.Admission.End)
		wantRefused(t, arrived(g, time.Now()), &leftMeanwhile{Context: context.Background()}, ClientGone, time.Second)
		wantCounts(t, g.Admission, 0, 0)
	})
}

// All three ends of a wait fall on the same instant, in every combination.
func TestAdmitLosesNoSlotWhenEndsCoincide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			g := takenGate(t, Config{QueueCapacity: 3, QueueMaxWait: time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			time.AfterFunc(time.Second, g.Admission.End)
			var done sync.WaitGroup
			for range 3 {
				done.Go(func() {
					b := arrived(g, time.Now())
					o, _ := b.Admit(ctx)
					b.End(o)
				})
			}
			done.Wait()
			synctest.Wait()
			cancel()
			wantCounts(t, g.Admission, 0, 0)
		}
	})
}

// The same Blocking, again and again: a wakeup that comes late, of the request
// before, is no slot.
func TestALateWakeupIsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 1, QueueMaxWait: time.Second})
		b := arrived(g, time.Now())
		b.End(Served)
		b.Describe()
		b.Wake()
		b.Arrive()
		wantRefused(t, b, t.Context(), QueueWaitExpired, time.Second)
		wantCounts(t, g.Admission, 1, 0)
	})
}

func TestAdmitAndBeginShareOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := takenGate(t, Config{QueueCapacity: 10})
		var mu sync.Mutex
		var order, want []string
		admitted := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}
		for i := range 5 {
			begin, admit := fmt.Sprintf("begin %d", i), fmt.Sprintf("admit %d", i)
			want = append(want, begin, admit)
			wantVerdict(t, g.Admission, &Waiter{Notify: func() { admitted(begin) }}, Queued)
			go func() {
				if o, refused := arrived(g, time.Now()).Admit(t.Context()); refused {
					t.Error(o)
				}
				admitted(admit)
			}()
			synctest.Wait()
		}
		for range 10 {
			g.Admission.End()
			synctest.Wait()
		}
		if !slices.Equal(order, want) {
			t.Fatalf("order %q", order)
		}
		g.Admission.End()
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestABlockingExchangeDoesNotAllocate(t *testing.T) {
	open := takenGate(t, Config{})
	open.Admission.End()
	for name, g := range map[string]*Gate{"with a free slot": open, "refused": takenGate(t, Config{})} {
		b, ctx := arrived(g, time.Now()), t.Context()
		b.End(Served)
		if n := testing.AllocsPerRun(1000, func() {
			b.Arrive()
			o, _ := b.Admit(ctx)
			b.End(o)
			b.Describe()
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
