package loop

import (
	"sync"

	"go.uber.org/atomic"
)

type inbox struct {
	sleeping atomic.Bool // the loop is blocked and must be woken

	mu       sync.Mutex
	woken    []*Handle
	posted   []func()
	recycled []*Handle // the last list returned by take(); its memory is used for the next list woken
	closed   bool
}

func (in *inbox) post(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.posted = append(in.posted, f)
	}
}

func (in *inbox) wake(h *Handle) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.woken = append(in.woken, h)
}

func (in *inbox) take() (woken []*Handle, posted []func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	woken, posted = in.woken, in.posted
	in.woken, in.posted = in.recycled[:0], nil
	return woken, posted
}

func (in *inbox) empty() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.woken) == 0 && len(in.posted) == 0
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.posted = true, nil
}

// Flusher is an object with buffered output, such as a connection to which many exchanges
// write. The loop flushes it once per batch of events.
type Flusher interface{ Flush() }

// flushes holds the Flushers of the current batch.
type flushes struct{ pending []Flusher }

// FlushLater schedules one call of f.Flush after the current batch of events has been
// handled.
func (b *flushes) FlushLater(f Flusher) { b.pending = append(b.pending, f) }

func (b *flushes) run() {
	for i := 0; i < len(b.pending); i++ { // Flush may call FlushLater
		b.pending[i].Flush()
		b.pending[i] = nil
	}
	b.pending = b.pending[:0]
}
