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

// maxLineBytes bounds one line; a latency line of many quantiles stays far
// below it.
const maxLineBytes = 1 << 20

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
		line = bytes.TrimSpace(line)
		if len(line) > maxLineBytes {
			return nil, fmt.Errorf("reading samples: line %d: longer than %d bytes", n, maxLineBytes)
		}
		if len(line) == 0 {
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
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	defer f.Close()
	run, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return run, nil
}

func (run *Run) add(line []byte, units map[[2]string]string) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	if (head.Kind == kindMeta) == (run.Meta.Version != 0) {
		if head.Kind == kindMeta {
			return errors.New("a second meta line")
		}
		return fmt.Errorf("kind %q before the meta line", head.Kind)
	}
	switch head.Kind {
	case kindMeta:
		if err := json.Unmarshal(line, &run.Meta); err != nil {
			return err
		}
		if v := run.Meta.Version; v != Version {
			return fmt.Errorf("version is %d, this reader knows %d", v, Version)
		}
	case kindFigure:
		return addTo(&run.Figures, line, func(f Figure) error {
			return errors.Join(f.check(), sameUnit(units, f.Scenario, f.Figure, f.Unit))
		})
	case kindLatency:
		return addTo(&run.Latencies, line, func(l Latency) error {
			return errors.Join(l.check(), sameUnit(units, l.Scenario, "", l.Unit))
		})
	case kindNote:
		return addTo(&run.Notes, line, func(Note) error { return nil })
	default:
		return fmt.Errorf("unknown kind %q", head.Kind)
	}
	return nil
}

// addTo appends what a line holds, if it passes the check.
func addTo[T any](list *[]T, line []byte, check func(T) error) error {
	var one T
	if err := json.Unmarshal(line, &one); err != nil {
		return err
	}
	if err := check(one); err != nil {
		return err
	}
	*list = append(*list, one)
	return nil
}

// sameUnit remembers the unit of a figure, the latency if figure is empty, and
// refuses another.
func sameUnit(units map[[2]string]string, scenario, figure, unit string) error {
	k := [2]string{scenario, figure}
	if before, ok := units[k]; ok && before != unit {
		return fmt.Errorf("%s %s is in %q, before it was in %q", scenario, figure, unit, before)
	}
	units[k] = unit
	return nil
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
