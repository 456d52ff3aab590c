package lines

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

const writeSize = 64 << 10 // maximum bytes per write, unless a single line is longer

func (w *Writer) run() {
	defer close(w.done)
	b := batch{writer: w}
	var lines []Line
	for {
		select {
		case <-w.wake:
			w.linger()
		case <-w.closing:
		}
		for {
			w.mu.Lock()
			lines, w.pending = w.pending, lines[:0]
			w.asleep = len(lines) == 0
			done := w.closed && w.asleep
			w.mu.Unlock()
			if done {
				return
			}
			if len(lines) == 0 {
				break
			}
			b.add(lines)
			clear(lines)
			if cap(lines) > 1024 {
				lines = nil
			}
		}
	}
}

func (w *Writer) setWriting(since time.Time) {
	w.mu.Lock()
	w.writing = since
	w.mu.Unlock()
}

// linger waits up to Config.Linger for more lines.
func (w *Writer) linger() {
	if w.cfg.Linger == 0 {
		return
	}
	timer := time.NewTimer(w.cfg.Linger)
	select {
	case <-timer.C:
	case <-w.closing:
		timer.Stop()
	}
}

// batch renders lines and writes them together. Only the writing goroutine uses it.
type batch struct {
	writer *Writer
	buf    []byte
	lines  []Line // lines that were rendered into buf

	torn     bool // the last write ended in the middle of a line
	reported bool // Failed was called for a line that could not be rendered
}

func (b *batch) add(lines []Line) {
	for _, l := range lines {
		start := len(b.buf)
		var err error
		if b.buf, err = l.Append(b.buf); err != nil {
			b.lose(err)
			b.buf = b.buf[:start]
		}
		if len(b.buf) > start {
			b.buf = append(b.buf, '\n')
		}
		b.lines = append(b.lines, l)
		if len(b.buf) >= writeSize {
			b.flush()
		}
	}
	b.flush()
}

func (b *batch) lose(err error) {
	b.writer.dropped.Inc()
	if !b.reported {
		b.reported = true
		b.writer.cfg.Failed(err)
	}
}

func (b *batch) flush() {
	if len(b.buf) > 0 {
		b.write()
	}
	size := 0
	for _, l := range b.lines {
		size += l.Size()
	}
	b.writer.mu.Lock()
	b.writer.lines -= len(b.lines)
	b.writer.bytes -= size
	b.writer.mu.Unlock()
	// Release the lines last: the end of a Flush is a line, and after Flush the space must
	// be free.
	for i, l := range b.lines {
		l.Release()
		b.lines[i] = nil
	}
	b.lines = b.lines[:0]
	b.buf = b.buf[:0]
	if cap(b.buf) > 4*writeSize {
		b.buf = nil
	}
}

func (b *batch) write() {
	out := b.buf
	if b.torn {
		out = append([]byte{'\n'}, out...)
	}
	b.writer.setWriting(time.Now())
	n, err := b.writer.cfg.Writer.Write(out)
	b.writer.setWriting(time.Time{})
	n = min(max(n, 0), len(out))
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		b.torn = out[n-1] != '\n'
	}
	if err != nil {
		// Count the lines that were not written completely. Do not count the newline that
		// was added in front of b.buf: it ends a torn line, which an earlier write has
		// already counted.
		lost := out[max(n, len(out)-len(b.buf)):]
		b.writer.dropped.Add(uint64(bytes.Count(lost, []byte{'\n'})))
		b.writer.cfg.Failed(fmt.Errorf("writing lines: %w", err))
	}
}
