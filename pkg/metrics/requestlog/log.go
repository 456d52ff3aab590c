package requestlog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/metrics/lines"
)

// Preset is the template "json": Knative's default line with additional times, outcome
// and bytes.
const Preset = "json"

// linger is how long the first line after a pause waits for more lines. This reduces
// the number of writes and wake-ups.
const linger = 5 * time.Millisecond

// Config configures a Log.
type Config struct {
	Template string // "" = Knative's default line; Preset; or the text of a template
	Revision RevisionInfo
	Writer   io.Writer // each write has whole lines and is made by the same goroutine

	QueueLines int // maximum number of queued lines; 0 = 8,192
	QueueBytes int // maximum number of bytes that queued lines occupy; 0 = 4 MiB

	// Failed is called for each failed write. It is called once if the template refers
	// to something that does not exist. It may be nil.
	Failed func(error)
}

// RevisionInfo is the value of .Revision in a template.
type RevisionInfo struct {
	Name, Namespace, Service, Configuration, PodName, PodIP string
}

// Log is a request log. A nil Log is disabled: Begin returns nil, and the other methods
// do nothing. All methods may be called concurrently.
type Log struct {
	revision RevisionInfo
	format   atomic.Pointer[format]
	lines    *lines.Writer
	entries  sync.Pool
}

// format is a parsed template. An entry is rendered with the format that applied at its
// Begin.
type format struct {
	render renderer
	shown  []string // header fields that a line can contain; nil = all
}

// renderer appends the line of an entry without its newline. It may append nothing.
type renderer interface {
	appendLine(b []byte, e *Entry, revision *RevisionInfo) ([]byte, error)
}

// New starts a log. If the template does not parse, the error says why. Close ends the
// log.
func New(cfg Config) (*Log, error) {
	if cfg.Writer == nil {
		return nil, fmt.Errorf("request log: no writer")
	}
	l := &Log{revision: cfg.Revision}
	if err := l.SetTemplate(cfg.Template); err != nil {
		return nil, err
	}
	l.entries.New = func() any { return newEntry(l) }
	l.lines = lines.New(lines.Config{
		Writer: cfg.Writer, QueueLines: cfg.QueueLines, QueueBytes: cfg.QueueBytes, Linger: linger, Failed: cfg.Failed,
	})
	return l, nil
}

// Check parses a template and returns the error. The error does not contain the text of
// the template.
func Check(template string) error {
	_, err := newFormat(template)
	return err
}

// SetTemplate replaces Config.Template. A request that has already begun keeps the
// previous template. If the new template does not parse, SetTemplate returns an error
// and changes nothing.
func (l *Log) SetTemplate(template string) error {
	f, err := newFormat(template)
	if err != nil {
		return fmt.Errorf("request log template: %w", err)
	}
	l.format.Store(f)
	return nil
}

// shows reports whether a line can contain the header field name.
func (f *format) shows(name []byte) bool {
	return f.shown == nil || slices.ContainsFunc(f.shown, func(known string) bool { return equalFold(name, known) })
}

func newFormat(text string) (*format, error) {
	switch {
	case text == "" || isKnativeDefault(text):
		return &format{directLine{}, directFields}, nil
	case text == Preset:
		return &format{directLine{extended: true}, directFields}, nil
	}
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	return &format{render: t}, nil
}

// Dropped returns the number of lost lines. A line is lost if the queue is full, if the
// template or the writer fails, or if the log is closed.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.lines.Dropped()
}

// Close writes the queued lines and ends the log. If ctx ends first, it returns an
// error.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if err := l.lines.Close(ctx); err != nil {
		return fmt.Errorf("closing the request log: %w", err)
	}
	return nil
}
