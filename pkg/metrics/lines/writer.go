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

	// syncTimeout is the maximum duration of Sync.
	syncTimeout = 250 * time.Millisecond

	// stuckAfter is the duration after which a write counts as stuck. Flush and Close
	// then return an error.
	stuckAfter = time.Second
)

// Line is a line to write.
type Line interface {
	// Size returns the number of bytes that the line occupies until it is released.
	Size() int
	// Append appends the line without its newline. If it appends nothing, nothing is
	// written. It is called at most once. If it returns an error, the line is dropped.
	Append(b []byte) ([]byte, error)
	// Release is called when the line is no longer used.
	Release()
}

// Config configures a Writer.
type Config struct {
	Writer io.Writer // called by one goroutine, with whole lines

	QueueLines int // maximum number of queued lines; 0 = 8,192
	QueueBytes int // maximum sum of Size of queued lines; 0 = 4 MiB

	// Linger is how long the first line after a pause waits for more lines, to reduce
	// the number of writes.
	Linger time.Duration

	// Failed is called with each error of a write, and with the first error of Append.
	// It may be nil.
	Failed func(error)
}

// Writer has the queue of lines and the goroutine that writes them. All methods may be
// called concurrently.
type Writer struct {
	cfg     Config
	dropped atomic.Uint64

	mu      sync.Mutex
	pending []Line
	bytes   int  // bytes of the lines in pending and in the current write
	lines   int  // number of lines in pending and in the current write
	started bool // the first line starts the goroutine
	asleep  bool // the goroutine waits for wake
	closed  bool
	writing time.Time // start of the current write; zero = no write in progress

	wake    chan struct{} // capacity 1; sent only while the goroutine is asleep
	closing chan struct{}
	done    chan struct{}
}

// New creates a Writer. Close ends it.
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

// Dropped returns the number of lines that were lost because the queue was full, the
// Writer was closed, or Append or the write failed.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Put queues a line and never blocks. The Writer then owns the line.
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

// append queues a line, wakes the goroutine and unlocks w.mu.
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

// Flush waits until all lines that were put before have been written. It returns an
// error if ctx ends or the reader hangs.
func (w *Writer) Flush(ctx context.Context) error {
	m := make(mark)
	w.mu.Lock()
	if !w.started || w.closed {
		w.mu.Unlock()
		return nil
	}
	w.append(m) // regardless of the limits of the queue
	return w.await(ctx, m)
}

// mark is a Line without text. Its Release ends a Flush.
type mark chan struct{}

func (mark) Size() int                       { return 0 }
func (mark) Append(b []byte) ([]byte, error) { return b, nil }
func (m mark) Release()                      { close(m) }

// Close writes the queued lines and ends the Writer. It returns an error if ctx ends or
// the reader hangs. Lines that are put later are dropped.
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

func (w *Writer) await(ctx context.Context, done <-chan struct{}) error {
	for {
		w.mu.Lock()
		since := w.writing
		w.mu.Unlock()
		remaining := stuckAfter
		if !since.IsZero() {
			remaining -= time.Since(since)
		}
		timer := time.NewTimer(max(remaining, 0))
		select {
		case <-done:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("writing the last lines: %w", context.Cause(ctx))
		case <-timer.C:
			if remaining <= 0 {
				return fmt.Errorf("writing the last lines: %w", errStuck)
			}
		}
	}
}

// Write queues a copy of text, which must end in a newline. It never fails.
func (w *Writer) Write(text []byte) (int, error) {
	t := texts.Get().(*line)
	t.text = append(t.text[:0], text...)
	w.Put(t)
	return len(text), nil
}

// Sync calls Flush with a timeout of syncTimeout.
func (w *Writer) Sync() error {
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	return w.Flush(ctx)
}

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
