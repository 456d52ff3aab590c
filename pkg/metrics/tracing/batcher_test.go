package tracing

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// numbered returns n spans with consecutive numbers. Its first parameter is the number of
// the first span. The ChildSpanCount of a span holds its number, so that tests can check
// the order of spans.
func numbered(from, n int) []SpanData {
	spans := make([]SpanData, n)
	for i := range spans {
		spans[i].ChildSpanCount = from + i
	}
	return spans
}

func TestABatchOfSpansIsSentASecondAfterItsFirstSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(kept)
		b := newBatcher(k, nil)
		for round := range 2 {
			time.Sleep(time.Hour)
			b.addAll(numbered(0, 3))
			time.Sleep(batchDelay / 2)
			b.add(&numbered(3, 1)[0])
			time.Sleep(batchDelay/2 - 1)
			synctest.Wait()
			if n := len(k.sizes()); n != round {
				t.Fatalf("%d batches before their time", n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if sizes := k.sizes(); len(sizes) != round+1 || sizes[round] != 4 {
				t.Fatalf("batches of %v", sizes)
			}
		}
		if err := b.close(t.Context()); err != nil || !k.closed {
			t.Errorf("closed %v, %v", k.closed, err)
		}
	})
}

func TestAFullBatchIsSentImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(kept)
		b := newBatcher(k, nil)
		start := time.Now()
		for i := 0; i < maxBatch+88; i += 3 { // 600
			b.addAll(numbered(i, 3))
			synctest.Wait()
		}
		if sizes := k.sizes(); len(sizes) != 1 || sizes[0] < maxBatch || time.Since(start) != 0 {
			t.Fatalf("batches of %v after %v", sizes, time.Since(start))
		}
		time.Sleep(batchDelay)
		synctest.Wait()
		if n := len(k.spans()); n != 600 {
			t.Errorf("%d spans, want 600", n)
		}
		// The channel b.full still holds the signal of the first batch. These spans must
		// nevertheless wait for batchDelay.
		b.addAll(numbered(600, 3))
		time.Sleep(batchDelay - 1)
		synctest.Wait()
		if n := len(k.spans()); n != 600 {
			t.Errorf("%d spans, want 600 still", n)
		}
		if err := b.close(t.Context()); err != nil {
			t.Error(err)
		}
		for i, s := range k.spans() {
			if s.ChildSpanCount != i {
				t.Fatalf("span %d at place %d", s.ChildSpanCount, i)
			}
		}
	})
}

// hanging is an exporter that blocks until its context ends.
type hanging struct {
	started chan struct{}
	sizes   []int
}

func (h *hanging) Export(ctx context.Context, batch []*SpanData) (int, error) {
	h.sizes = append(h.sizes, len(batch))
	if len(h.sizes) == 1 {
		close(h.started)
	}
	<-ctx.Done()
	return len(batch), ctx.Err()
}

func (*hanging) Close() {}

func TestAHangingCollectorBlocksNothingAndDropsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{started: make(chan struct{})}
		var failures []error
		tracer := newTracer(&Config{SamplingRate: 1, Failed: func(err error) { failures = append(failures, err) }}, h)
		tracer.Start(nil).End(finished())
		<-h.started // the exporter has three spans
		start := time.Now()
		const requests = 5000
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range requests / 4 {
					tracer.Start(nil).End(finished())
				}
			})
		}
		clients.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("requests were held up for %v", took)
		}
		const room = maxQueued / 3 * 3 // addAll queues all three spans or none
		if got := tracer.Dropped(); got != 3*requests-room {
			t.Errorf("%d dropped, want %d", got, 3*requests-room)
		}
		for range maxQueued - room + 1 {
			tracer.ExportSpan(&SpanData{})
		}
		if got := tracer.Dropped(); got != 3*requests-room+1 {
			t.Errorf("%d dropped, want %d: one span too many", got, 3*requests-room+1)
		}
		const all = 3 + 3*requests + maxQueued - room + 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tracer.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		<-tracer.spans.done
		if got := tracer.Dropped(); got != all {
			t.Errorf("%d dropped in the end, want %d", got, all)
		}
		for _, n := range h.sizes {
			if n > maxBatch {
				t.Errorf("a batch of %d", n)
			}
		}
		if len(failures) != len(h.sizes) || !strings.Contains(failures[0].Error(), "sending 3 spans") {
			t.Errorf("%d batches failed, notified of %q", len(h.sizes), failures)
		}
		tracer.Start(nil).End(finished())
		if got := tracer.Dropped(); got != all+3 {
			t.Errorf("%d dropped after Close, want %d", got, all+3)
		}
		if err := tracer.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// slow is an exporter with a configurable duration.
type slow struct {
	kept
	each time.Duration
	at   []time.Time
}

func (s *slow) Export(ctx context.Context, batch []*SpanData) (int, error) {
	s.at = append(s.at, time.Now())
	time.Sleep(s.each)
	return s.kept.Export(ctx, batch)
}

func TestSpansBeyondAFullBatchWaitForMoreSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{each: 4 * time.Second}
		b := newBatcher(s, nil)
		start := time.Now()
		b.add(&numbered(0, 1)[0])
		time.Sleep(3 * time.Second)
		b.add(&numbered(1, 1)[0]) // while the exporter has the first span
		b.addAll(numbered(2, maxBatch))
		time.Sleep(time.Minute)
		if err := b.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, when := range s.at {
			at = append(at, when.Sub(start))
		}
		if want := []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("batches at %v, want %v", at, want)
		}
	})
}

func TestCloseSendsTheQueuedSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{each: time.Second}
		b := newBatcher(s, nil)
		b.add(&numbered(0, 1)[0])
		time.Sleep(batchDelay + s.each/2) // now the exporter has the span
		const more = maxQueued / 8
		for i := range more {
			b.addAll(numbered(1+8*i, 8))
		}
		if err := b.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(s.spans()); got != 1+8*more || b.dropped.Load() != 0 {
			t.Errorf("%d spans arrived and %d were dropped, want %d and none", got, b.dropped.Load(), 1+8*more)
		}
	})
}

func TestWithoutSpansThereIsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(new(kept), nil)
		synctest.Wait()
		where := func() string {
			buf := make([]byte, 1<<20)
			for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(stack, "(*batcher).run") {
					return stack
				}
			}
			return ""
		}
		idle := func(when string) {
			if stack := where(); strings.Contains(stack, "gather") || !strings.Contains(stack, "[select") {
				t.Errorf("%s:\n%s", when, stack)
			}
		}
		idle("at first")
		b.add(&numbered(0, 1)[0])
		synctest.Wait()
		if stack := where(); !strings.Contains(stack, "gather") {
			t.Errorf("with a span:\n%s", stack)
		}
		time.Sleep(batchDelay)
		synctest.Wait()
		idle("afterwards")
		if err := b.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
