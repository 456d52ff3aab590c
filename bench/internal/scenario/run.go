package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/queuegate/queuegate/bench/internal/awake"
	"github.com/queuegate/queuegate/bench/internal/child"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// A Recorder receives measurements; sample.Writer implements it.
type Recorder interface {
	Figure(sample.Figure) error
	Latency(sample.Latency) error
	Note(sample.Note) error
}

// A Run is one measurement: of one scenario, with one target, in one round.
type Run struct {
	ctx      context.Context
	scenario *Scenario
	target   *target.Target
	round    int
	options  *Options
	record   *record
	profile  *profiler // nil = no profiles
}

// Options are the same for all measurements.
type Options struct {
	Rounds   int
	Duration time.Duration
	// Quick makes everything short and small. A quick run shows that everything works,
	// but its figures mean nothing.
	Quick bool
	// Profile is the directory for profiles of those targets that provide profiles.
	// Empty = no profiles.
	Profile string
	// Dir is the directory in which the instances have their files.
	Dir string
	// Files is the limit of open files of a process.
	Files uint64
}

// warmup returns for how long a target is loaded before the measurement.
func (o *Options) warmup() time.Duration { return min(o.Duration/5, time.Second) }

// record writes samples. It keeps the latencies of the current round, so that they can
// be compared with those of Direct, and it writes each note once. Only the goroutine of
// the run may use it.
type record struct {
	Recorder
	notes     map[sample.Note]bool
	latencies map[string]*load.Result // results of the current round, by target
	failed    error                   // first error of a write
}

func newRecord(r Recorder) *record {
	return &record{Recorder: r, notes: map[sample.Note]bool{}, latencies: map[string]*load.Result{}}
}

func (r *record) keep(err error) {
	if err != nil && r.failed == nil {
		r.failed = err
	}
}

func (r *record) note(n sample.Note) {
	if !r.notes[n] {
		r.notes[n] = true
		r.keep(r.Recorder.Note(n))
	}
}

// figure records a number. If the run was cancelled, it records nothing.
func (r *Run) figure(name string, value float64, unit string, better sample.Better) {
	if r.ctx.Err() != nil {
		return
	}
	r.record.keep(r.record.Figure(sample.Figure{
		Round: r.round, Scenario: r.scenario.Name, Target: r.target.Name,
		Figure: name, Value: value, Unit: unit, Better: better,
	}))
}

func (r *Run) note(format string, args ...any) {
	r.record.note(sample.Note{Target: r.target.Name, Scenario: r.scenario.Name, Text: fmt.Sprintf(format, args...)})
}

// latency records a distribution of latencies in µs.
func (r *Run) latency(res *load.Result) {
	if len(res.Quantiles) == 0 {
		return
	}
	l := sample.Latency{Round: r.round, Scenario: r.scenario.Name, Target: r.target.Name, Unit: "us", Count: res.Count}
	for _, q := range res.Quantiles {
		l.Quantiles = append(l.Quantiles, sample.Quantile{q[0], q[1] / 1e3})
	}
	r.record.keep(r.record.Latency(l))
	r.record.latencies[r.target.Name] = res
}

// A stand is a target together with the origin behind it.
type stand struct {
	origin   *origin.Process
	instance *target.Instance
	awake    *child.Process // nil if the scenario is not Awake
}

// helpers returns the process ids of the harness's own processes in this stand.
func (s *stand) helpers() []int {
	if s.awake == nil {
		return []int{s.origin.PID()}
	}
	return []int{s.origin.PID(), s.awake.PID()}
}

func (s *stand) stop() {
	if s.awake != nil {
		s.awake.Stop()
	}
	s.instance.Stop()
	s.origin.Stop()
}

// start starts a new origin, the target in front of it, and the scenario's additional
// processes. If one of them cannot run, start adds a note with the reason and returns
// errUntrusted.
func (r *Run) start(options target.Options) (*stand, error) {
	o, err := origin.Start(r.ctx, origin.Spec{Ports: 1})
	if err != nil {
		return nil, err
	}
	options.Origin = o.Port(0)
	options.Profile = r.profile != nil
	i, err := r.target.Start(r.ctx, r.options.Dir, options, o.PID())
	if err != nil {
		o.Stop()
		return nil, err
	}
	st := &stand{origin: o, instance: i}
	if !r.scenario.Awake {
		return st, nil
	}
	if st.awake, err = awake.Start(r.ctx); err != nil {
		st.stop()
		if errors.Is(err, awake.ErrRefused) {
			r.note("no figures: %v", err)
			return nil, errUntrusted
		}
		return nil, err
	}
	return st, nil
}

// on creates a new stand and runs measure on it.
func (r *Run) on(options target.Options, measure func(*stand) error) error {
	st, err := r.start(options)
	if err != nil {
		return err
	}
	defer st.stop()
	return measure(st)
}

// pause waits for d. If the run is cancelled, it returns at once.
func (r *Run) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

func (r *Run) isDirect() bool { return r.target.Name == target.Direct }

// errUntrusted is returned if a measurement cannot be trusted. A note then has the
// reason.
var errUntrusted = errors.New("measurement cannot be trusted")

// A profiler gets pprof profiles from the targets that provide them. A nil profiler
// does nothing.
type profiler struct {
	dir string
}

// start starts a CPU profile of the duration d. The returned function waits until it is
// complete, and then gets the allocation profile.
func (p *profiler) start(r *Run, s *stand, d time.Duration) (stop func()) {
	port := s.instance.ProfilePort()
	if p == nil || port == 0 || r.round != 1 {
		return func() {}
	}
	fetch := func(page, kind string) error {
		name := filepath.Join(p.dir, fmt.Sprintf("%s-%s-%s.pprof", r.scenario.Name, r.target.Name, kind))
		return download(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", port, page), name)
	}
	cpu := make(chan error, 1)
	go func() { cpu <- fetch(fmt.Sprintf("profile?seconds=%d", max(1, int(d/time.Second))), "cpu") }()
	return func() {
		if err := errors.Join(<-cpu, fetch("allocs", "allocs")); err != nil {
			r.note("profiles are missing: %v", err)
		}
	}
}

var profileClient = &http.Client{Timeout: 5 * time.Minute}

func download(url, name string) error {
	response, err := profileClient.Get(url)
	if err != nil {
		return fmt.Errorf("fetching a profile: %w", err)
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return fmt.Errorf("fetching %s: %w", url, err)
	}
	return os.WriteFile(name, profile, 0o644)
}
