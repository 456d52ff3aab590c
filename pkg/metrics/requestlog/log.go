package requestlog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics/lines"
)

// Preset is the template that stands for Knative's default line with times,
// outcome and bytes added.
const Preset = "json"

// linger is how long the first line after a pause waits for company: without
// it, a write and a wake-up are spent on each.
const linger = 5 * time.Millisecond

// Config says what is written where.
type Config struct {
	Template string // "" for Knative's default line, Preset, or a template
	Revision RevisionInfo
	Writer   io.Writer // gets whole lines, from one goroutine

	QueueLines int // lines that may wait to be written; 0 means 8,192
	QueueBytes int // bytes that they may hold; 0 means 4 MiB

	// Failed is called for writes that failed, and once if the template asks for
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
	revision RevisionInfo
	render   renderer
	shown    []string // fields of the header that a line can show; nil: all
	lines    *lines.Writer
	entries  sync.Pool
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
	l := &Log{revision: cfg.Revision}
	if err := l.setTemplate(cfg.Template); err != nil {
		return nil, fmt.Errorf("request log template: %w", err)
	}
	l.entries.New = func() any { return newEntry(l) }
	l.lines = lines.New(lines.Config{
		Writer: cfg.Writer, QueueLines: cfg.QueueLines, QueueBytes: cfg.QueueBytes, Linger: linger, Failed: cfg.Failed,
	})
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
	return l.lines.Dropped()
}

// Close writes what is queued and ends the log, at the latest when ctx does;
// its error then says so.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if err := l.lines.Close(ctx); err != nil {
		return fmt.Errorf("closing the request log: %w", err)
	}
	return nil
}
