package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// Writer appends lines to w, each with one Write call as it comes, so that
// nothing is held back. Methods may be called at once from several goroutines.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer onto w, which stays the caller's to close. A file
// wants no buffer in front of it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Meta writes the first line. A zero m.Version is written as Version.
func (w *Writer) Meta(m Meta) error {
	if m.Version == 0 {
		m.Version = Version
	}
	return w.line(kindMeta, nil, m)
}

// Figure writes a figure. A value that is not a finite number is refused.
func (w *Writer) Figure(f Figure) error { return w.line(kindFigure, f.check(), f) }

// Latency writes a distribution.
func (w *Writer) Latency(l Latency) error { return w.line(kindLatency, l.check(), l) }

// Note writes a note.
func (w *Writer) Note(n Note) error {
	var err error
	if n.Text == "" {
		err = errors.New("text is empty")
	}
	return w.line(kindNote, err, n)
}

// line writes an object with at least one member, if it has passed its check.
func (w *Writer) line(kind string, failed error, v any) error {
	if failed != nil {
		return fmt.Errorf("writing %s: %w", kind, failed)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a sample: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.w, `{"kind":%q,%s`+"\n", kind, b[1:]); err != nil {
		return fmt.Errorf("writing a sample: %w", err)
	}
	return nil
}

func (f Figure) check() error {
	switch {
	case f.Scenario == "" || f.Target == "" || f.Figure == "":
		return fmt.Errorf("scenario %q, target %q and figure %q must all be named", f.Scenario, f.Target, f.Figure)
	case f.Round < 0:
		return fmt.Errorf("round is %d, must not be negative", f.Round)
	case math.IsNaN(f.Value) || math.IsInf(f.Value, 0):
		return fmt.Errorf("value of %s %s %s is %v", f.Scenario, f.Target, f.Figure, f.Value)
	case f.Better != Lower && f.Better != Higher && f.Better != Neither:
		return fmt.Errorf("better is %q, must be %q, %q or empty", f.Better, Lower, Higher)
	}
	return nil
}

func (l Latency) check() error {
	if l.Scenario == "" || l.Target == "" {
		return fmt.Errorf("scenario %q and target %q must both be named", l.Scenario, l.Target)
	}
	if l.Round < 0 {
		return fmt.Errorf("round is %d, must not be negative", l.Round)
	}
	if len(l.Quantiles) == 0 {
		return fmt.Errorf("%s %s has no quantiles", l.Scenario, l.Target)
	}
	last := math.Inf(-1)
	for _, q := range l.Quantiles {
		p, v := q.Percentile(), q.Value()
		if !(p >= 0 && p <= 100) || p <= last {
			return fmt.Errorf("%s %s: percentile %v after %v: must ascend within 0 to 100", l.Scenario, l.Target, p, last)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s %s: value at percentile %v is %v", l.Scenario, l.Target, p, v)
		}
		last = p
	}
	return nil
}
