package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
