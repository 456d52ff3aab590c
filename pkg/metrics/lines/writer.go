package lines

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/atomic"
)

const (
	defaultQueueLines = 8192
	defaultQueueBytes = 4 << 20

	// syncTimeout bounds Sync, which is called where a process ends.
	syncTimeout = 250 * time.Millisecond

	// stuckAfter is how long one write may take before no caller waits for it any
	// more: whatever reads the lines does not.
	stuckAfter = time.Second
)

// Line is a line that waits to be written.
type Line interface {
	// Size is the number of bytes that it holds until it is released.
	Size() int
	// Append adds the line without its newline, or nothing: then there is
	// none. The writer's goroutine calls it, at most once. An error costs the
	// line.
	Append(b []byte) ([]byte, error)
	// Release ends its use.
	Release()
}

// Config says where lines go.
type Config struct {
	Writer io.Writer // gets whole lines, from one goroutine

	QueueLines int // lines that may wait to be written; 0 means 8,192
	QueueBytes int // bytes that they may hold; 0 means 4 MiB

	// Linger is how long the first line after a pause waits for others, so
	// that fewer writes are made.
	Linger time.Duration

	// Failed is called with the error of each failed write, and with that of
	// the first line that could not be rendered. nil is fine.
	Failed func(error)
}

// Writer is the queue of lines and what writes them. All methods may be called
// from several goroutines at once.
type Writer struct {
	cfg     Config
	dropped atomic.Uint64

	mu      sync.Mutex
	pending []Line
	bytes   int  // held by pending and by what is being written
	lines   int  // likewise
	started bool // the goroutine, by the first line
	asleep  bool // it waits for wake
	closed  bool
	writing time.Time // since when; zero while it does not write

	wake    chan struct{} // one token at most, sent only to a sleeping goroutine
	closing chan struct{}
	done    chan struct{}
}

// New makes a Writer. Close ends it.
func New(cfg Config) *Writer {
	if cfg.QueueLines <= 0 {
		cfg.QueueLines = defaultQueueLines
	}
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = defaultQueueBytes
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	return &Writer{
		cfg:     cfg,
		asleep:  true,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// Dropped counts the lines that were lost: the queue was full, the line could
// not be rendered or written, or the Writer was closed.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Put takes a line over. It never blocks.
func (w *Writer) Put(l Line) {
	if !w.put(l) {
		w.dropped.Inc()
		l.Release()
	}
}

func (w *Writer) put(l Line) bool {
	size := l.Size()
	w.mu.Lock()
	if w.closed || w.lines >= w.cfg.QueueLines || w.bytes+size > w.cfg.QueueBytes {
		w.mu.Unlock()
		return false
	}
	w.bytes += size
	if !w.started {
		w.started = true
		go w.run()
	}
	w.append(l)
	return true
}

// append queues a line, wakes the goroutine and lets go of mu.
func (w *Writer) append(l Line) {
	w.pending = append(w.pending, l)
	w.lines++
	wake := w.asleep
	w.asleep = false
	w.mu.Unlock()
	if wake {
		w.wake <- struct{}{}
	}
}

// Flush returns when all lines that were put before have been written, or with
// an error when ctx ends or what is written is not read.
func (w *Writer) Flush(ctx context.Context) error {
	m := make(mark)
	w.mu.Lock()
	if !w.started || w.closed {
		w.mu.Unlock()
		return nil
	}
	w.append(m) // however full the queue is
	return w.await(ctx, m)
}

// mark is no line, but a place in the queue.
type mark chan struct{}

func (mark) Size() int                       { return 0 }
func (mark) Append(b []byte) ([]byte, error) { return b, nil }
func (m mark) Release()                      { close(m) }

// Close writes what is queued and ends the Writer. It gives up when ctx ends or
// nothing is read; its error then says so. Lines that are put later are dropped.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
		if !w.started {
			close(w.done)
		}
	}
	w.mu.Unlock()
	return w.await(ctx, w.done)
}

var errStuck = fmt.Errorf("a write has not ended for %v", stuckAfter)

// await waits for done, but not for a write that is stuck.
func (w *Writer) await(ctx context.Context, done <-chan struct{}) error {
	for {
		w.mu.Lock()
		since := w.writing
		w.mu.Unlock()
		left := stuckAfter
		if !since.IsZero() {
			left -= time.Since(since)
		}
		timer := time.NewTimer(max(left, 0))
		select {
		case <-done:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("writing the last lines: %w", context.Cause(ctx))
		case <-timer.C:
			if left <= 0 {
				return fmt.Errorf("writing the last lines: %w", errStuck)
			}
		}
	}
}

// Write puts a copy of text, which ends in a newline. It always succeeds.
func (w *Writer) Write(text []byte) (int, error) {
	t := texts.Get().(*line)
	t.text = append(t.text[:0], text...)
	w.Put(t)
	return len(text), nil
}

// Sync flushes, for a quarter of a second at most.
func (w *Writer) Sync() error {
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	return w.Flush(ctx)
}

// line is one that was given as text.
type line struct{ text []byte }

var texts = sync.Pool{New: func() any { return new(line) }}

const (
	lineOverhead  = 64
	maxPooledText = 4 << 10
)

func (l *line) Size() int { return lineOverhead + len(l.text) }

func (l *line) Append(b []byte) ([]byte, error) {
	text := l.text
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	return append(b, text...), nil
}

func (l *line) Release() {
	if cap(l.text) <= maxPooledText {
		texts.Put(l)
	}
}
