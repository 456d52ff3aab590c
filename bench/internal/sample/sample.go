// Package sample reads and writes the record of a benchmark run: its figures, machine
// and versions. The file format is JSON lines, with one object per line. The member
// "kind" gives the type of the line:
//
//	{"kind":"meta","version":1,"started":"2026-01-02T15:04:05Z","machine":{...},"versions":{...},"commit":"...","options":{...}}
//	{"kind":"figure","round":1,"scenario":"keepalive-64","target":"queuegate","figure":"cpu_per_request","value":8.1,"unit":"us","better":"lower"}
//	{"kind":"latency","round":1,"scenario":"open-2000","target":"queuegate","unit":"us","quantiles":[[50,81],[99,140]],"count":20000}
//	{"kind":"note","target":"envoy","scenario":"","text":"skipped: ..."}
//
// The first line is the meta line. Lines are only appended, so a run that is aborted
// keeps its measurements.
package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// Version is the version of the format. A reader rejects any other version.
const Version = 1

// Values of the member "kind".
const (
	kindMeta    = "meta"
	kindFigure  = "figure"
	kindLatency = "latency"
	kindNote    = "note"
)

// Better is the better direction of a figure.
type Better string

const (
	// Lower is for costs: time, memory, delay.
	Lower Better = "lower"
	// Higher is for yields: throughput, fairness.
	Higher Better = "higher"
	// Neither is for a figure without a better direction, such as the number of requests
	// that the load sent. Comparisons never judge such a figure.
	Neither Better = ""
)

// Machine describes a machine. Empty and zero fields are unknown.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
	OS          string `json:"os"`
}

// Meta describes the time, machine and versions of a run.
type Meta struct {
	Version int       `json:"version"`
	Started time.Time `json:"started"`
	Machine Machine   `json:"machine"`
	// Versions has the version of each target and of the toolchain, by name.
	Versions map[string]string `json:"versions,omitempty"`
	// Commit is the revision of queuegate, with "+dirty" if the work tree had changes.
	Commit string `json:"commit"`
	// Options are the settings of the run, as on the command line.
	Options map[string]string `json:"options,omitempty"`
}

// Figure is one measured number. Rounds count from 1; round 0 is for figures that are
// measured once, such as the size of a binary.
type Figure struct {
	Round    int     `json:"round"`
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Figure   string  `json:"figure"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Better   Better  `json:"better,omitempty"`
}

// Quantile is a percentile from 0 to 100 and its value.
type Quantile [2]float64

// Customary are the percentiles that tables and comparisons use. A record may have more
// percentiles, for pictures.
var Customary = []float64{50, 90, 99, 99.9, 100}

// Percentile returns the percentile, 0 to 100.
func (q Quantile) Percentile() float64 { return q[0] }

// Value returns the value at the percentile.
func (q Quantile) Value() float64 { return q[1] }

// UnmarshalJSON reads an array of exactly two numbers: percentile and value.
func (q *Quantile) UnmarshalJSON(text []byte) error {
	var pair []float64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a quantile of %d numbers, want a percentile and a value", len(pair))
	}
	*q = Quantile(pair)
	return nil
}

// Latency is the latency distribution of one scenario, target and round. Quantiles are in
// ascending order of percentile.
type Latency struct {
	Round     int        `json:"round"`
	Scenario  string     `json:"scenario"`
	Target    string     `json:"target"`
	Unit      string     `json:"unit"`
	Quantiles []Quantile `json:"quantiles"`
	Count     int64      `json:"count"`
}

// Note is a sentence for the reader of the report. A note with an empty Target is about
// all targets. A note with an empty Scenario is about all scenarios.
type Note struct {
	Target   string `json:"target"`
	Scenario string `json:"scenario"`
	Text     string `json:"text"`
}

// Run is a complete record in the order of the file.
type Run struct {
	Meta    Meta
	Figures []Figure // including percentiles of latencies
	Notes   []Note
}

// AddLatency adds the percentiles of a distribution as figures.
func (run *Run) AddLatency(l Latency) {
	for _, q := range l.Quantiles {
		run.Figures = append(run.Figures, Figure{l.Round, l.Scenario, l.Target, PercentileName(q.Percentile()), q.Value(), l.Unit, Lower})
	}
}

// Read reads a record. It skips empty lines. If the last line does not parse, because a
// crash truncated it, Read drops the line and adds a note. Errors have the line number,
// counted from 1. These are errors: an unknown kind, a second meta line, a line before
// the meta line, and a unit that differs between rounds.
func Read(r io.Reader) (*Run, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	run := &Run{}
	units := map[[2]string]string{} // unit by scenario and figure
	n := 0
	for line := range bytes.Lines(text) {
		n++
		isComplete := bytes.HasSuffix(line, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := run.add(line, units); err != nil {
			if !isComplete && run.Meta.Version != 0 && !json.Valid(line) {
				run.Notes = append(run.Notes, Note{Text: fmt.Sprintf("the record is truncated in line %d", n)})
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

// ReadFile reads a record from a file.
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

// A line is an element of a record. A line that fails check is neither written nor read.
type line interface{ check() error }

func decode(text []byte, into line) error {
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	return into.check()
}

// Writer writes each line with one Write call. It must not be used concurrently.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer to w. The caller closes w. w should be unbuffered, so that
// each line reaches the file at once.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Meta writes the meta line. A zero m.Version means Version.
func (w *Writer) Meta(m Meta) error {
	if m.Version == 0 {
		m.Version = Version
	}
	return w.line(kindMeta, m)
}

// Figure writes a figure, whose value must be finite.
func (w *Writer) Figure(f Figure) error { return w.line(kindFigure, f) }

// Latency writes a distribution.
func (w *Writer) Latency(l Latency) error { return w.line(kindLatency, l) }

// Note writes a note.
func (w *Writer) Note(n Note) error { return w.line(kindNote, n) }

// line writes l as a JSON object with kind as the first member. l must have at least one
// other member.
func (w *Writer) line(kind string, l line) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	if _, err := fmt.Fprintf(w.w, `{"kind":%q,%s`+"\n", kind, b[1:]); err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	return nil
}

func (m Meta) check() error {
	if m.Version != Version {
		return fmt.Errorf("version is %d, this reader supports %d", m.Version, Version)
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
