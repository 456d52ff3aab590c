package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/proc"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

const (
	mib = 1 << 20
	// toleratedFailures is the tolerated share of failed requests. If more requests
	// fail, the figures are discarded.
	toleratedFailures = 0.01
	// toleratedOthers is the share of the machine's CPU time that unrelated processes may
	// use. If they use more, a note reports this.
	toleratedOthers = 0.05
	// toleratedIdle is the share of the machine's CPU time that may appear idle in a
	// scenario with Awake. It is not 0, because the kernel counts CPU time in ticks. A
	// virtual machine may lose ticks, so that busy time appears as idle time.
	toleratedIdle   = 0.2
	toleratedOrigin = 0.95
)

// measured is the result of a load and its cost for the target.
type measured struct {
	*load.Result
	cpu      time.Duration
	switches proc.Switches
	loaded   proc.Memory // while the connections were open
	elapsed  time.Duration
}

// perRequest divides v by the number of all requests, including failed ones, because
// these have a cost too.
func (m *measured) perRequest(v float64) float64 {
	return v / float64(m.Requests+m.Failures())
}

// microseconds returns the CPU time per request in µs.
func (m *measured) microseconds() float64 { return m.perRequest(float64(m.cpu.Nanoseconds())) / 1e3 }

func (m *measured) failedShare() float64 { return m.perRequest(float64(m.Failures())) }

// measure runs a load on the stand. If the result cannot be trusted, it adds a note and
// returns errUntrusted.
func (r *Run) measure(s *stand, spec load.Spec) (*measured, error) {
	m, err := r.observe(s, spec)
	if err != nil {
		return nil, err
	}
	if m.Requests == 0 {
		return nil, fmt.Errorf("no request succeeded: %s", failures(m.Result))
	}
	if share := m.failedShare(); share > toleratedFailures {
		r.note("no figures in at least one round: more than %.0f %% of the requests failed: %s", 100*failedAtLeast(share), failures(m.Result))
		return nil, errUntrusted
	} else if share > 0 {
		r.note("some requests failed: %s", failures(m.Result))
	}
	if r.saturated(m, spec.Rate > 0) {
		return nil, errUntrusted
	}
	return m, nil
}

// failedAtLeast rounds a share down to one of a few values, so that rounds with similar
// shares have the same note.
func failedAtLeast(share float64) float64 {
	for _, bound := range []float64{0.9, 0.5, 0.1} {
		if share > bound {
			return bound
		}
	}
	return toleratedFailures
}

// saturated reports whether the load generator was the bottleneck. If it was, saturated
// also adds a note. In a quick run it always returns false, because the figures of a
// quick run have no meaning.
func (r *Run) saturated(m *measured, open bool) bool {
	if m.Saturated == "" || r.options.Quick {
		return false
	}
	r.note("no figures in at least one round: the load generator was saturated: %s", m.Saturated)
	r.generator(m, open)
	return true
}

// generator records how well the load generator kept up. For an open loop, it records how
// late the requests were sent. For a closed loop, it records how busy the generator was.
func (r *Run) generator(m *measured, open bool) {
	if open {
		r.figure("generator_late_p99", float64(m.SendDelay.Nanoseconds())/1e3, "us", sample.Neither)
	} else {
		r.figure("generator_cpu", m.Share, "cores", sample.Neither)
	}
}

// observe runs a load on the stand and measures the cost of the load. If the processors
// were idle for too long in a scenario with Awake, observe adds a note and returns
// errUntrusted.
func (r *Run) observe(s *stand, spec load.Spec) (*measured, error) {
	m, err := r.load(s, spec)
	if err != nil && !errors.Is(err, errUntrusted) && !s.instance.Alive() {
		err = fmt.Errorf("%w; %s has ended: %s", err, s.instance.Target.Name, s.instance.Log())
	}
	return m, err
}

func (r *Run) load(s *stand, spec load.Spec) (*measured, error) {
	spec.Host, spec.Port = s.instance.Host, s.instance.Port
	spec.Duration = cmp.Or(spec.Duration, r.options.Duration)
	spec.Connections = max(spec.Connections, 1)
	if spec.Warmup == 0 && spec.Kind != load.Idle {
		spec.Warmup = r.options.warmup()
	}
	generator, err := load.Start(r.ctx, spec)
	if err != nil {
		return nil, err
	}
	defer generator.Stop()
	pids, err := s.instance.Processes()
	if err != nil {
		return nil, err
	}
	harness := slices.Concat(pids, s.helpers(), []int{generator.PID(), os.Getpid()})
	slices.Sort(harness)
	harness = slices.Compact(harness)
	stopProfile := r.profile.start(r, s, spec.Duration)
	meter := meter{}
	before := meter.view(pids, s.origin.PID(), harness)
	result, err := generator.Run()
	after := meter.view(pids, s.origin.PID(), harness)
	if err := errors.Join(err, meter.err); err != nil {
		return nil, err
	}
	stopProfile()
	m := &measured{
		Result:   result,
		cpu:      after.cpu - before.cpu,
		switches: after.switches.Sub(before.switches),
		elapsed:  after.at.Sub(before.at),
		loaded:   meter.memory(pids),
	}
	if meter.err != nil {
		return nil, meter.err
	}
	busy := after.busy - before.busy
	r.noteDisturbance(m, after.origin-before.origin, busy-(after.total-before.total))
	if r.dozed(busy, m.elapsed) {
		return nil, errUntrusted
	}
	return m, nil
}

// dozed reports whether the processors were idle for too long in a scenario with Awake.
// If they were, dozed also adds a note. A possible cause is a CPU quota, which stops the
// helper that keeps the processors awake.
func (r *Run) dozed(busy, elapsed time.Duration) bool {
	share := 1 - float64(busy)/(float64(elapsed)*float64(runtime.NumCPU()))
	if !r.scenario.Awake || share <= toleratedIdle || r.options.Quick {
		return false
	}
	r.note("no figures in at least one round: cores that were to be kept awake were idle for more than %.0f %% of the time", 100*toleratedIdle)
	return true
}

// noteDisturbance adds a note if the origin used too much CPU time, or if processes that
// do not belong to the measurement did.
func (r *Run) noteDisturbance(m *measured, originCPU, othersCPU time.Duration) {
	if share := float64(originCPU) / float64(m.elapsed); share > toleratedOrigin && r.target.Started() {
		r.note("the origin was saturated: it took more than %.0f %% of a core", 100*toleratedOrigin)
	}
	machine := float64(m.elapsed) * float64(runtime.NumCPU())
	if share := float64(othersCPU) / machine; share > toleratedOthers && !r.options.Quick && !r.target.IsPeer() {
		r.note("other processes took more than %.0f %% of the machine in at least one round", 100*toleratedOthers)
	}
}

type kernelView struct {
	at       time.Time
	cpu      time.Duration // CPU time of the target
	switches proc.Switches
	origin   time.Duration
	total    time.Duration // CPU time of the target and of all processes of the harness
	busy     time.Duration // busy time of the machine
}

// A meter reads costs from the kernel. It keeps the first error.
type meter struct{ err error }

func read[T any](m *meter, value T, err error) T {
	if m.err == nil {
		m.err = err
	}
	return value
}

func (m *meter) cpu(pids ...int) time.Duration {
	v, err := proc.CPU(pids)
	return read(m, v, err)
}

func (m *meter) switches(pids []int) proc.Switches {
	v, err := proc.ContextSwitches(pids)
	return read(m, v, err)
}

func (m *meter) memory(pids []int) proc.Memory {
	v, err := proc.MemoryOf(pids)
	return read(m, v, err)
}

// busy returns the busy time of the machine's processors.
func (m *meter) busy() time.Duration {
	v, err := proc.Busy()
	return read(m, v, err)
}

func (m *meter) view(pids []int, origin int, all []int) kernelView {
	return kernelView{time.Now(), m.cpu(pids...), m.switches(pids), m.cpu(origin), m.cpu(all...), m.busy()}
}

// failures lists the kinds of failures, most frequent first.
func failures(res *load.Result) string {
	counts := map[string]int64{}
	for status, n := range res.Rejected {
		counts[fmt.Sprintf("status %d", status)] += n
	}
	maps.Copy(counts, res.Errors)
	if res.Unfinished > 0 {
		counts["no response"] = res.Unfinished
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	return strings.Join(kinds, ", ")
}

// costs records the cost per request of a target that the harness started.
func (r *Run) costs(m *measured) {
	if !r.target.Started() {
		return
	}
	r.figure("cpu_per_request", m.microseconds(), "us", sample.Lower)
	r.figure("voluntary_switches_per_request", m.perRequest(float64(m.switches.Voluntary)), "", sample.Lower)
	r.figure("involuntary_switches_per_request", m.perRequest(float64(m.switches.Involuntary)), "", sample.Neither)
	r.figure("rss_loaded", float64(m.loaded.RSS)/mib, "MiB", sample.Lower)
	r.figure("private_memory_loaded", float64(m.loaded.Private)/mib, "MiB", sample.Lower)
}

func (r *Run) throughput(m *measured, d time.Duration) {
	r.figure("requests_per_second", float64(m.Window)/d.Seconds(), "/s", sample.Higher)
	r.generator(m, false)
}

// syscalls counts system calls per request under a separate short load. It does so only
// in the first round, because the number does not vary between rounds.
func (r *Run) syscalls(s *stand, spec load.Spec) error {
	if r.round != 1 || !r.target.Started() {
		return nil
	}
	spec.Host, spec.Port = s.instance.Host, s.instance.Port
	spec.Duration = min(r.options.Duration/4, 500*time.Millisecond)
	spec.Warmup = spec.Duration / 5
	generator, err := load.Start(r.ctx, spec)
	if err != nil {
		return err
	}
	defer generator.Stop()
	pids, err := s.instance.Processes()
	if err != nil {
		return err
	}
	m := measured{}
	n, err := proc.CountSyscalls(pids, func() (err error) {
		m.Result, err = generator.Run()
		return err
	})
	if err == nil && m.Requests > 0 {
		r.figure("syscalls_per_request", m.perRequest(float64(n)), "", sample.Lower)
	}
	return err
}

// plain runs a load and records its figures.
func (r *Run) plain(s *stand, spec load.Spec) error {
	m, err := r.measure(s, spec)
	if err != nil {
		return err
	}
	r.costs(m)
	if spec.Rate == 0 {
		r.throughput(m, r.options.Duration)
	} else {
		r.generator(m, true)
	}
	r.latency(m.Result)
	if err := r.syscalls(s, spec); err != nil {
		r.note("system calls were not counted: %v", err)
	}
	return nil
}
