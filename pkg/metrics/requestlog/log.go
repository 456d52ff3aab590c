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

// linger is how long the first line after a pause waits for more lines, to reduce the
// number of writes.
const linger = 5 * time.Millisecond

// Config configures a Log.
type Config struct {
	Template string // "" = Knative's default line; Preset; or the text of a template
	Revision RevisionInfo
	Writer   io.Writer // called by one goroutine, with whole lines

	QueueLines int // maximum number of queued lines; 0 = 8,192
	QueueBytes int // maximum memory of queued lines in bytes; 0 = 4 MiB

	// Failed is called for each failed write, and once if the template cannot be
	// executed. It may be nil.
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

// format is a parsed template. An entry keeps the format of its Begin.
type format struct {
	render renderer
	shown  []string // header fields that a line can contain; nil = all
}

// renderer renders lines. The method appendLine appends the line of an entry to b,
// without a newline. If the line of this entry is empty, it appends nothing.
type renderer interface {
	appendLine(b []byte, e *Entry, revision *RevisionInfo) ([]byte, error)
}

// New starts a log, which Close ends. It returns an error if the template does not
// parse.
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

// Check returns an error if the template does not parse. The error does not repeat the
// whole template, so the caller decides whether to show it.
func Check(template string) error {
	_, err := newFormat(template)
	return err
}

// SetTemplate replaces Config.Template for requests that begin later. If the new
// template does not parse, it returns an error and changes nothing.
func (l *Log) SetTemplate(template string) error {
	f, err := newFormat(template)
	if err != nil {
		return fmt.Errorf("request log template: %w", err)
	}
	l.format.Store(f)
	return nil
}

// shows reports whether a log line can contain the header field with this name.
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

// Dropped returns the number of lines that were lost because the queue was full, the
// template or the writer failed, or the log was closed.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.lines.Dropped()
}

// Close writes the queued lines and ends the log. It returns an error if ctx ends first,
// or if a write hangs.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if err := l.lines.Close(ctx); err != nil {
		return fmt.Errorf("closing the request log: %w", err)
	}
	return nil
}
