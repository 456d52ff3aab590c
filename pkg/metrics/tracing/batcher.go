package tracing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Limits of queued spans.
const (
	maxQueued  = 2048 // maximum number of queued spans, not counting the batch being sent
	maxBatch   = 512  // maximum number of spans per batch
	batchDelay = time.Second
)

// Exporter sends spans. Only one goroutine calls it.
type Exporter interface {
	// Export sends a batch. It may retry until ctx ends. It may keep the spans after it
	// has returned. The result lost is the number of spans that could not be sent or
	// were rejected by the collector. A collector may reject some spans without an
	// error, so this number may be above 0 even if err is nil.
	Export(ctx context.Context, batch []*SpanData) (lost int, err error)
	// Close is called once, after the last Export.
	Close()
}

// batcher queues spans. One goroutine sends them in batches. While the queue is empty,
// this goroutine has no timer, so it does not wake an idle process.
type batcher struct {
	exporter Exporter
	failed   func(error)
	dropped  atomic.Int64

	mu      sync.Mutex // held for a few instructions only
	waiting []*SpanData
	closed  bool

	nonEmpty chan struct{} // receives a value when the queue is no longer empty
	full     chan struct{} // receives a value when the queue has a full batch
	closing  chan struct{}
	done     chan struct{}
	cancel   context.CancelFunc
}

func newBatcher(e Exporter, failed func(error)) *batcher {
	ctx, cancel := context.WithCancel(context.Background())
	b := &batcher{
		exporter: e, failed: failed,
		nonEmpty: make(chan struct{}, 1), full: make(chan struct{}, 1),
		closing: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	go b.run(ctx)
	return b
}

func (b *batcher) add(s *SpanData) {
	b.put(1, func() { b.waiting = append(b.waiting, s) })
}

// addAll queues the spans of a request, all or none.
func (b *batcher) addAll(spans []SpanData) {
	b.put(len(spans), func() {
		for i := range spans {
			b.waiting = append(b.waiting, &spans[i])
		}
	})
}

func (b *batcher) put(n int, appendAll func()) {
	b.mu.Lock()
	before := len(b.waiting)
	room := !b.closed && before+n <= maxQueued
	if room {
		appendAll()
	}
	b.mu.Unlock()
	switch {
	case !room:
		b.dropped.Add(int64(n))
	case before == 0:
		signal(b.nonEmpty)
	case before < maxBatch && before+n >= maxBatch:
		signal(b.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *batcher) run(ctx context.Context) {
	defer close(b.done)
	defer b.exporter.Close()
	for {
		select {
		case <-b.nonEmpty:
			b.gather()
			b.send(ctx)
		case <-b.closing:
			for b.send(ctx) {
			}
			return
		}
	}
}

// gather waits for a full batch, at most batchDelay.
func (b *batcher) gather() {
	select {
	case <-b.full: // discard the signal of an earlier batch
	default:
	}
	b.mu.Lock()
	full := len(b.waiting) >= maxBatch
	b.mu.Unlock()
	if full {
		return
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.full:
	case <-b.closing:
	}
}

// send sends one batch. It returns false if the queue was empty.
func (b *batcher) send(ctx context.Context) bool {
	batch := b.take()
	if len(batch) == 0 {
		return false
	}
	lost, err := b.exporter.Export(ctx, batch)
	b.dropped.Add(int64(lost))
	if err != nil && b.failed != nil {
		b.failed(fmt.Errorf("sending %d spans: %w", len(batch), err))
	}
	return true
}

func (b *batcher) take() []*SpanData {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	if rest := b.waiting[n:]; len(rest) == 0 {
		b.waiting = nil
	} else {
		b.waiting = append([]*SpanData(nil), rest...)
		signal(b.nonEmpty)
	}
	return batch
}

func (b *batcher) close(ctx context.Context) error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.closing)
	}
	b.mu.Unlock()
	defer b.cancel()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sending the last spans: %w", ctx.Err())
	}
}
