// Package sample is the record of a benchmark run: what was measured, on what,
// and with what. On disk it is JSON lines, one object per line, distinguished by
// the member "kind":
//
//	{"kind":"meta","version":1,"started":"2026-01-02T15:04:05Z","machine":{...},"versions":{...},"commit":"...","options":{...}}
//	{"kind":"figure","round":1,"scenario":"keepalive-64","target":"queuegate","figure":"cpu_per_request","value":8.1,"unit":"us","better":"lower"}
//	{"kind":"latency","round":1,"scenario":"open-2000","target":"queuegate","unit":"us","quantiles":[[50,81],[99,140]],"count":20000}
//	{"kind":"note","target":"envoy","scenario":"","text":"skipped: ..."}
//
// The first line is the meta line. Lines are only ever appended, so that a run
// which dies keeps what it had.
package sample

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version is the format's version, written into the meta line. A reader refuses
// any other.
const Version = 1

// Values of the member "kind".
const (
	kindMeta    = "meta"
	kindFigure  = "figure"
	kindLatency = "latency"
	kindNote    = "note"
)

// Better says which way a figure improves.
type Better string

const (
	// Lower marks costs: time, memory, delay.
	Lower Better = "lower"
	// Higher marks yields: throughput, fairness.
	Higher Better = "higher"
	// Neither marks a figure that only describes, such as the number of
	// requests offered; it is shown and never judged.
	Neither Better = ""
)

// Machine is what the run ran on. An empty or zero member means unknown.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
	OS          string `json:"os"`
}

// Meta says when, where and with what a run was made.
type Meta struct {
	Version int       `json:"version"`
	Started time.Time `json:"started"`
	Machine Machine   `json:"machine"`
	// Versions maps a program (a target, the toolchain) to its version.
	Versions map[string]string `json:"versions,omitempty"`
	// Commit is the revision of queuegate, with "+dirty" after it if the tree
	// was changed.
	Commit string `json:"commit"`
	// Options are the run's settings, as the command line would spell them.
	Options map[string]string `json:"options,omitempty"`
}

// Figure is one number, measured once: one scenario, one target, one round.
// Rounds count from 1; zero means that the figure belongs to no round (the
// size of a binary).
type Figure struct {
	Round    int     `json:"round"`
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Figure   string  `json:"figure"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Better   Better  `json:"better,omitempty"`
}

// Quantile is a percentile, 0 to 100, and the value at it.
type Quantile [2]float64

// Customary are the percentiles that tables show and comparisons judge; a
// record may hold more of them, for pictures.
var Customary = []float64{50, 90, 99, 99.9, 100}

// Percentile returns the percentile, 0 to 100.
func (q Quantile) Percentile() float64 { return q[0] }

// Value returns the value at the percentile.
func (q Quantile) Value() float64 { return q[1] }

// UnmarshalJSON reads "[percentile, value]", nothing shorter or longer.
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

// Latency is a distribution measured in one scenario, target and round.
// Quantiles ascend by percentile; the value at 100 is the largest seen.
type Latency struct {
	Round     int        `json:"round"`
	Scenario  string     `json:"scenario"`
	Target    string     `json:"target"`
	Unit      string     `json:"unit"`
	Quantiles []Quantile `json:"quantiles"`
	Count     int64      `json:"count"`
}

// Note is a sentence for the reader of the report: a target that was skipped, a
// generator that was saturated. An empty Target or Scenario means all.
type Note struct {
	Target   string `json:"target"`
	Scenario string `json:"scenario"`
	Text     string `json:"text"`
}

// Run is a whole record. Order is that of the file.
type Run struct {
	Meta    Meta
	Figures []Figure // percentiles of latencies among them
	Notes   []Note
}

// AddLatency adds a distribution, each percentile as a figure of its own.
func (run *Run) AddLatency(l Latency) {
	for _, q := range l.Quantiles {
		run.Figures = append(run.Figures, Figure{l.Round, l.Scenario, l.Target, PercentileName(q.Percentile()), q.Value(), l.Unit, Lower})
	}
}
