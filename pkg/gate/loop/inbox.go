package loop

import (
	"sync"

	"go.uber.org/atomic"
)

// inbox is what comes to a loop from other goroutines.
type inbox struct {
	sleeping atomic.Bool // the loop waits, and has to be roused

	mu       sync.Mutex
	woken    []*Handle
	posted   []func()
	recycled []*Handle // the memory of woken, in turns
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

// Flusher has something to do once all events of a batch have been handled: a
// connection that many exchanges write to.
type Flusher interface{ Flush() }

// flushes are due at the end of the batch.
type flushes struct{ pending []Flusher }

// FlushLater calls f.Flush once, when the events that are being handled have been.
func (b *flushes) FlushLater(f Flusher) { b.pending = append(b.pending, f) }

func (b *flushes) run() {
	for i := 0; i < len(b.pending); i++ { // a flush may ask for another one
		b.pending[i].Flush()
		b.pending[i] = nil
	}
	b.pending = b.pending[:0]
}
