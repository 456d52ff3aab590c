package sample

import (
	"bufio"
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
// meta line are errors, and so is a unit that changes from round to round. The last line of a run that died may have no end: if it
// does not parse it is left out, and a note says so.
func Read(r io.Reader) (*Run, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	run := &Run{}
	units := map[[2]string]string{} // of a scenario and figure
	for n := 1; ; n++ {
		line, err := readLine(br)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("reading samples: line %d: %w", n, err)
		}
		cut := err == io.EOF
		if len(line) > 0 {
			if err := run.add(line, units); err != nil {
				if cut && run.Meta.Version != 0 && !json.Valid(line) {
					run.Notes = append(run.Notes, Note{Text: fmt.Sprintf("the record breaks off in line %d", n)})
					return run, nil
				}
				return nil, fmt.Errorf("reading samples: line %d: %w", n, err)
			}
		}
		if cut {
			break
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

// readLine returns a line without its end. At the end of the input it returns
// what is left together with io.EOF.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > maxLineBytes {
			return nil, fmt.Errorf("longer than %d bytes", maxLineBytes)
		}
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, err
	}
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
		var m Meta
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		if m.Version != Version {
			return fmt.Errorf("version is %d, this reader knows %d", m.Version, Version)
		}
		run.Meta = m
	case kindFigure:
		var f Figure
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		if err := sameUnit(units, f.Scenario, f.Figure, f.Unit); err != nil {
			return err
		}
		run.Figures = append(run.Figures, f)
	case kindLatency:
		var l Latency
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return err
		}
		if err := sameUnit(units, l.Scenario, "", l.Unit); err != nil {
			return err
		}
		run.Latencies = append(run.Latencies, l)
	case kindNote:
		var n Note
		if err := json.Unmarshal(line, &n); err != nil {
			return err
		}
		run.Notes = append(run.Notes, n)
	default:
		return fmt.Errorf("unknown kind %q", head.Kind)
	}
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
