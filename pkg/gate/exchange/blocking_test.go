package exchange

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

// arrived returns a Blocking whose request has just arrived at g. The clock of the
// Blocking starts at the time born.
func arrived(g *Gate, born time.Time) *Blocking {
	b := NewBlocking(g, func() int64 { return int64(time.Since(born)) + 1 })
	b.Arrive()
	return b
}

func fullGate(t *testing.T, c Config) *Gate {
	t.Helper()
	c.ConcurrencyLimit = 1
	g := &Gate{Config: c}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	g.Admission.TryAcquire()
	return g
}

// wantRejected checks that b is rejected with o after the given time and has released all
// resources.
func wantRejected(t *testing.T, b *Blocking, ctx context.Context, o gate.Outcome, after time.Duration) {
	t.Helper()
	start := time.Now()
	got := b.Admit(ctx)
	if got != o || time.Since(start) != after {
		t.Errorf("ended with %s after %v, want %s after %v", got, time.Since(start), o, after)
	}
	b.End(got)
	if b.State() != StateIdle || b.gate.Drain.Requests() != 0 {
		t.Errorf("in state %d, %d requests open", b.State(), b.gate.Drain.Requests())
	}
}

type noopObserver struct{}

func (noopObserver) Begin(*gate.Record)    {}
func (noopObserver) End(*gate.Record)      {}
func (noopObserver) Rejected(gate.Outcome) {}
func (noopObserver) Probed(*gate.Record)   {}

func TestARequestAdmittedWithoutQueueingReadsTheClockTwice(t *testing.T) {
	g := &Gate{Config: Config{ConcurrencyLimit: 1, Observer: noopObserver{}}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	readings := int64(0)
	b := NewBlocking(g, func() int64 { readings++; return readings })
	b.Arrive()
	b.Admit(t.Context())
	b.Forward()
	b.End(gate.Served)
	if readings != 2 || b.QueueWait() != 0 || b.UpstreamTime() != b.Took() || b.Took() != 1 {
		t.Errorf("%d readings, waited %d, upstream %d of %d", readings, b.QueueWait(), b.UpstreamTime(), b.Took())
	}
}

func TestAdmitReturnsTheOutcomeThatEndsTheWait(t *testing.T) {
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
		o     gate.Outcome
		after time.Duration
	}{
		"a full queue":        {Config{}, context.WithCancel, gate.QueueFull, 0},
		"QueueMaxWait":        {Config{QueueCapacity: 1, QueueMaxWait: 3 * time.Second, RequestTimeout: 4 * time.Second}, context.WithCancel, gate.QueueWaitExpired, 3 * time.Second},
		"RequestTimeout":      {Config{QueueCapacity: 1, QueueMaxWait: time.Minute, RequestTimeout: 4 * time.Second}, context.WithCancel, gate.RequestTimeout, 4 * time.Second},
		"a client disconnect": {Config{QueueCapacity: 1, QueueMaxWait: time.Minute}, in(time.Second), gate.ClientGone, time.Second},
		"the deadline of a context": {Config{QueueCapacity: 1}, func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(p, time.Second)
		}, gate.RequestTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := fullGate(t, c.cfg)
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				wantRejected(t, arrived(g, time.Now()), ctx, c.o, c.after)
				wantCounts(t, g.Admission, 1, 0)
			})
		})
	}
}

func TestAdmitWithoutTimeoutsWaitsUntilASlotIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 1})
		start := time.Now()
		time.AfterFunc(24*time.Hour, g.Admission.Release)
		b := arrived(g, start)
		if o := b.Admit(t.Context()); o != gate.Undecided || time.Since(start) != 24*time.Hour || b.State() != StateConnecting {
			t.Errorf("ended with %s after %v, in state %d", o, time.Since(start), b.State())
		}
		wantCounts(t, g.Admission, 1, 0)
		b.Forward()
		b.End(gate.Served)
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestADisconnectedClientGetsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{})
		g.Admission.Release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantRejected(t, arrived(g, time.Now()), ctx, gate.ClientGone, 0)
		wantCounts(t, g.Admission, 0, 0)
	})
}

// doneAtSecondCheck is a context whose Err fails from its second call on.
type doneAtSecondCheck struct {
	context.Context
	checks int
}

func (c *doneAtSecondCheck) Done() <-chan struct{} { return nil }

func (c *doneAtSecondCheck) Err() error {
	if c.checks++; c.checks > 1 {
		return context.Canceled
	}
	return nil
}

func TestASlotGrantedToADisconnectedClientIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 1})
		time.AfterFunc(time.Second, g.Admission.Release)
		wantRejected(t, arrived(g, time.Now()), &doneAtSecondCheck{Context: context.Background()}, gate.ClientGone, time.Second)
		wantCounts(t, g.Admission, 0, 0)
	})
}

// A slot is released, QueueMaxWait expires and the context is cancelled at the same time.
func TestAdmitLosesNoSlotWhenEventsCoincide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			g := fullGate(t, Config{QueueCapacity: 3, QueueMaxWait: time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			time.AfterFunc(time.Second, g.Admission.Release)
			var done sync.WaitGroup
			for range 3 {
				done.Go(func() {
					b := arrived(g, time.Now())
					o := b.Admit(ctx)
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

// The wake-up was meant for an earlier request of the same Blocking.
func TestALateWakeUpForThePreviousRequestDoesNotAdmitTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 1, QueueMaxWait: time.Second})
		b := arrived(g, time.Now())
		b.End(gate.Served)
		b.Reset()
		b.Wake()
		b.Arrive()
		wantRejected(t, b, t.Context(), gate.QueueWaitExpired, time.Second)
		wantCounts(t, g.Admission, 1, 0)
	})
}

func TestAdmitAndBeginShareOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fullGate(t, Config{QueueCapacity: 10})
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
			wantDecision(t, g.Admission, &admission.Waiter{Notify: func() { admitted(begin) }}, admission.Queued)
			go func() {
				if o := arrived(g, time.Now()).Admit(t.Context()); o != gate.Undecided {
					t.Error(o)
				}
				admitted(admit)
			}()
			synctest.Wait()
		}
		for range 10 {
			g.Admission.Release()
			synctest.Wait()
		}
		if !slices.Equal(order, want) {
			t.Fatalf("order %q", order)
		}
		g.Admission.Release()
		wantCounts(t, g.Admission, 0, 0)
	})
}

func TestABlockingExchangeDoesNotAllocate(t *testing.T) {
	open := fullGate(t, Config{})
	open.Admission.Release()
	for name, g := range map[string]*Gate{"with a free slot": open, "rejected": fullGate(t, Config{})} {
		b, ctx := arrived(g, time.Now()), t.Context()
		b.End(gate.Served)
		if n := testing.AllocsPerRun(1000, func() {
			b.Arrive()
			o := b.Admit(ctx)
			b.End(o)
			b.Reset()
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
