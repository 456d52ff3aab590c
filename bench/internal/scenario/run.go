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

// A Run is one measurement of one scenario with one target in one round.
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
	// Quick makes all measurements short and small. A quick run only shows that the
	// harness works. Its figures have no meaning.
	Quick bool
	// Profile is the directory for profiles of targets that have pprof; "" = no profiles.
	Profile string
	// Dir is the directory for the files of instances.
	Dir string
	// Files is the limit of open files of a process.
	Files uint64
}

// warmup returns the duration of the load before the measurement.
func (o *Options) warmup() time.Duration { return min(o.Duration/5, time.Second) }

// record writes samples, and each note only once. It keeps the latencies of the current
// round, to compare them with those of Direct. It must not be used concurrently.
type record struct {
	Recorder
	notes     map[sample.Note]bool
	latencies map[string]*load.Result // results in this round, by name of the target
	failed    error                   // first write error
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

// figure records a number, unless the run was cancelled.
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

// latency records a latency distribution in µs.
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

// A stand is a target and the origin behind it.
type stand struct {
	origin   *origin.Process
	instance *target.Instance
	awake    *child.Process // nil if the scenario is not Awake
}

// helpers returns the ids of the harness's processes in this stand.
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

// start starts a new origin, the target, and the awake helper if the scenario needs it.
// If the system does not allow the helper, start adds a note and returns errUntrusted.
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

// withStand starts a new target with its origin, calls measure, and stops both.
func (r *Run) withStand(options target.Options, measure func(*stand) error) error {
	st, err := r.start(options)
	if err != nil {
		return err
	}
	defer st.stop()
	return measure(st)
}

// pause waits for d, or until the run is cancelled.
func (r *Run) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

func (r *Run) isDirect() bool { return r.target.Name == target.Direct }

// errUntrusted reports a measurement that cannot be trusted. A note has the reason.
var errUntrusted = errors.New("measurement cannot be trusted")

// A profiler fetches pprof profiles. A nil profiler does nothing.
type profiler struct {
	dir string
}

// start starts a CPU profile of the duration d. stop waits for it, and then fetches the
// allocation profile.
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
