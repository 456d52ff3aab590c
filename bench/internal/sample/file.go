package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
)

// Read reads a whole record. Errors name the line, counted from 1. Empty lines
// are passed over; an unknown kind, a second meta line and anything before the
// meta line are errors, and so is a unit that changes from round to round. The
// last line of a run that died may have no end: if it does not parse it is left
// out, and a note says so.
func Read(r io.Reader) (*Run, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	run := &Run{}
	units := map[[2]string]string{} // of a scenario and figure
	n := 0
	for line := range bytes.Lines(text) {
		n++
		whole := bytes.HasSuffix(line, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := run.add(line, units); err != nil {
			if !whole && run.Meta.Version != 0 && !json.Valid(line) {
				run.Notes = append(run.Notes, Note{Text: fmt.Sprintf("the record breaks off in line %d", n)})
				return run, nil
			}
			return nil, fmt.Errorf("reading samples: line %d: %w", n, err)
		}
	}
	if run.Meta.Version == 0 {
		return nil, errors.New("reading samples: no meta line")
	}
	return run, nil
}

// ReadFile reads the record in a file.
func ReadFile(name string) (*Run, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	run, err := Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return run, nil
}

func (run *Run) add(text []byte, units map[[2]string]string) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if (head.Kind == kindMeta) == (run.Meta.Version != 0) {
		if head.Kind == kindMeta {
			return errors.New("a second meta line")
		}
		return fmt.Errorf("kind %q before the meta line", head.Kind)
	}
	// A figure keeps its unit, and so do the percentiles of a scenario.
	sameUnit := func(scenario, figure, unit string) error {
		k := [2]string{scenario, figure}
		if before, ok := units[k]; ok && before != unit {
			return fmt.Errorf("%s %s is in %q, before it was in %q", scenario, figure, unit, before)
		}
		units[k] = unit
		return nil
	}
	switch head.Kind {
	case kindMeta:
		return decode(text, &run.Meta)
	case kindFigure:
		var f Figure
		err := decode(text, &f)
		run.Figures = append(run.Figures, f)
		return errors.Join(err, sameUnit(f.Scenario, f.Figure, f.Unit))
	case kindLatency:
		var l Latency
		err := decode(text, &l)
		run.AddLatency(l)
		return errors.Join(err, sameUnit(l.Scenario, "latency", l.Unit))
	case kindNote:
		var n Note
		err := decode(text, &n)
		run.Notes = append(run.Notes, n)
		return err
	}
	return fmt.Errorf("unknown kind %q", head.Kind)
}

// A line is what may be in a record; what fails its check is neither written
// nor read.
type line interface{ check() error }

func decode(text []byte, into line) error {
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	return into.check()
}

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
	return w.line(kindMeta, m)
}

// Figure writes a figure. A value that is not a finite number is refused.
func (w *Writer) Figure(f Figure) error { return w.line(kindFigure, f) }

// Latency writes a distribution.
func (w *Writer) Latency(l Latency) error { return w.line(kindLatency, l) }

// Note writes a note.
func (w *Writer) Note(n Note) error { return w.line(kindNote, n) }

// line writes an object with at least one member, if it passes its check.
func (w *Writer) line(kind string, l line) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.w, `{"kind":%q,%s`+"\n", kind, b[1:]); err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	return nil
}

func (m Meta) check() error {
	if m.Version != Version {
		return fmt.Errorf("version is %d, this reader knows %d", m.Version, Version)
	}
	return nil
}

func (n Note) check() error {
	if n.Text == "" {
		return errors.New("text is empty")
	}
	return nil
}

func (f Figure) check() error {
	switch {
	case f.Scenario == "" || f.Target == "" || f.Figure == "":
		return fmt.Errorf("scenario %q, target %q and figure %q must all be named", f.Scenario, f.Target, f.Figure)
	case f.Round < 0:
		return fmt.Errorf("round is %d, must not be negative", f.Round)
	case f.Better != Lower && f.Better != Higher && f.Better != Neither:
		return fmt.Errorf("better is %q, must be %q, %q or empty", f.Better, Lower, Higher)
	}
	return nil
}

func (l Latency) check() error {
	switch {
	case l.Scenario == "" || l.Target == "":
		return fmt.Errorf("scenario %q and target %q must both be named", l.Scenario, l.Target)
	case l.Round < 0:
		return fmt.Errorf("round is %d, must not be negative", l.Round)
	case len(l.Quantiles) == 0:
		return fmt.Errorf("%s %s has no quantiles", l.Scenario, l.Target)
	}
	last := math.Inf(-1)
	for _, q := range l.Quantiles {
		p := q.Percentile()
		if !(p >= 0 && p <= 100) || p <= last {
			return fmt.Errorf("%s %s: percentile %v after %v: must ascend within 0 to 100", l.Scenario, l.Target, p, last)
		}
		last = p
	}
	return nil
}
