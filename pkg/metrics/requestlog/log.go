package requestlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/atomic"
)

// Preset is the template that stands for Knative's default line with times,
// outcome and bytes added.
const Preset = "json"

const (
	defaultQueueLines = 8192
	defaultQueueBytes = 4 << 20

	// linger is how long the first line after a pause waits for company:
	// without it, a write and a wake-up are spent on each.
	linger = 5 * time.Millisecond

	writeSize = 64 << 10 // bytes of one write, but for a line that is longer
)

// Config says what is written where.
type Config struct {
	Template string // "" for Knative's default line, Preset, or a template
	Revision RevisionInfo
	Writer   io.Writer // gets whole lines, from one goroutine

	QueueLines int // lines that may wait to be written; 0 means 8,192
	QueueBytes int // bytes that they may hold; 0 means 4 MiB

	// Failed is told of writes that failed, and once if the template asks for
	// what is not there. nil is fine.
	Failed func(error)
}

// RevisionInfo is a template's .Revision.
type RevisionInfo struct {
	Name, Namespace, Service, Configuration, PodName, PodIP string
}

// Log is a request log. A nil Log is one that is switched off: Begin returns
// nil, and all else does nothing. All methods may be called from several
// goroutines at once.
type Log struct {
	revision   RevisionInfo
	render     renderer
	shown      []string // fields of the header that a line can show; nil: all
	writer     io.Writer
	failed     func(error)
	queueLines int
	queueBytes int

	entries sync.Pool
	dropped atomic.Uint64

	mu      sync.Mutex
	pending []*Entry
	bytes   int  // held by pending and by what is being written
	lines   int  // likewise
	asleep  bool // the writer waits for wake
	closed  bool

	wake    chan struct{} // one token at most, sent only to a sleeping writer
	closing chan struct{}
	done    chan struct{}
}

// renderer appends the line of an entry without its newline, or nothing.
type renderer interface {
	appendLine(b []byte, e *Entry, revision *RevisionInfo) ([]byte, error)
}

// New starts a log. The error names why the template does not parse. Close
// ends the log.
func New(cfg Config) (*Log, error) {
	if cfg.Writer == nil {
		return nil, fmt.Errorf("request log: no writer")
	}
	l := &Log{
		revision:   cfg.Revision,
		writer:     cfg.Writer,
		failed:     cfg.Failed,
		queueLines: cfg.QueueLines,
		queueBytes: cfg.QueueBytes,
		asleep:     true,
		wake:       make(chan struct{}, 1),
		closing:    make(chan struct{}),
		done:       make(chan struct{}),
	}
	if l.queueLines <= 0 {
		l.queueLines = defaultQueueLines
	}
	if l.queueBytes <= 0 {
		l.queueBytes = defaultQueueBytes
	}
	if l.failed == nil {
		l.failed = func(error) {}
	}
	if err := l.setTemplate(cfg.Template); err != nil {
		return nil, fmt.Errorf("request log template: %w", err)
	}
	l.entries.New = func() any { return newEntry(l) }
	go l.write()
	return l, nil
}

// Check says why a template does not parse, without its text.
func Check(template string) error { return new(Log).setTemplate(template) }

// shows tells if a line can have this field of the header.
func (l *Log) shows(name []byte) bool {
	return l.shown == nil || slices.ContainsFunc(l.shown, func(known string) bool { return equalFold(name, known) })
}

func (l *Log) setTemplate(text string) error {
	switch {
	case text == "" || isKnativeDefault(text):
		l.render, l.shown = directLine{}, directFields
	case text == Preset:
		l.render, l.shown = directLine{extended: true}, directFields
	default:
		t, err := parseTemplate(text)
		if err != nil {
			return err
		}
		l.render = t
	}
	return nil
}

// Dropped counts the lines that were lost: the queue was full, the template
// or the writer failed, or the log was closed.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// queue takes an entry over.
func (l *Log) queue(e *Entry) {
	size := e.size()
	l.mu.Lock()
	if l.closed || l.lines >= l.queueLines || l.bytes+size > l.queueBytes {
		l.mu.Unlock()
		l.dropped.Inc()
		l.release(e)
		return
	}
	l.pending = append(l.pending, e)
	l.lines++
	l.bytes += size
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		l.wake <- struct{}{}
	}
}

// Close writes what is queued and ends the log, at the latest when ctx does;
// its error then says so.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the request log: %w", context.Cause(ctx))
	}
}

// write is the log's goroutine.
func (l *Log) write() {
	defer close(l.done)
	w := batch{log: l}
	var entries []*Entry
	for {
		select {
		case <-l.wake:
			l.rest()
		case <-l.closing:
		}
		for {
			l.mu.Lock()
			entries, l.pending = l.pending, entries[:0]
			l.asleep = len(entries) == 0
			ended := l.closed && l.asleep
			l.mu.Unlock()
			if ended {
				return
			}
			if len(entries) == 0 {
				break
			}
			w.add(entries)
			clear(entries)
			if cap(entries) > 1024 {
				entries = nil
			}
		}
	}
}

// rest lets the lines of a burst gather.
func (l *Log) rest() {
	timer := time.NewTimer(linger)
	select {
	case <-timer.C:
	case <-l.closing:
		timer.Stop()
	}
}

// batch renders entries and writes them together. Only the log's goroutine
// uses it.
type batch struct {
	log  *Log
	buf  []byte
	held []*Entry // rendered into buf

	torn  bool // the last write ended within a line
	wrong bool // the template's fault has been told
}

func (w *batch) add(entries []*Entry) {
	for _, e := range entries {
		start := len(w.buf)
		var err error
		if w.buf, err = w.log.render.appendLine(w.buf, e, &w.log.revision); err != nil {
			w.lose(err)
		}
		if len(w.buf) > start {
			w.buf = append(w.buf, '\n')
		}
		w.held = append(w.held, e)
		if len(w.buf) >= writeSize {
			w.flush()
		}
	}
	w.flush()
}

// lose counts a line that the template could not render.
func (w *batch) lose(err error) {
	w.log.dropped.Inc()
	if !w.wrong {
		w.wrong = true
		w.log.failed(fmt.Errorf("request log template: %w", err))
	}
}

func (w *batch) flush() {
	if len(w.buf) > 0 {
		w.write()
	}
	bytes := 0
	for i, e := range w.held {
		bytes += e.size()
		w.log.release(e)
		w.held[i] = nil
	}
	w.log.mu.Lock()
	w.log.lines -= len(w.held)
	w.log.bytes -= bytes
	w.log.mu.Unlock()
	w.held = w.held[:0]
	w.buf = w.buf[:0]
	if cap(w.buf) > 4*writeSize {
		w.buf = nil
	}
}

func (w *batch) write() {
	out := w.buf
	if w.torn {
		out = append([]byte{'\n'}, out...)
	}
	n, err := w.log.writer.Write(out)
	n = min(max(n, 0), len(out))
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		w.torn = out[n-1] != '\n'
	}
	if err != nil {
		w.log.dropped.Add(uint64(bytes.Count(out[n:], []byte{'\n'})))
		w.log.failed(fmt.Errorf("writing the request log: %w", err))
	}
}
