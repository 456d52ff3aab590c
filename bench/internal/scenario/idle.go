package scenario

import (
	"errors"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

var (
	// idle measures a target that has never had a request. For such a target the harness
	// does not even send a readiness request.
	idle = Scenario{
		Name:    "idle",
		About:   "a fresh instance, no requests, no scrapes: memory, CPU, wake-ups",
		Needs:   []string{target.Start},
		Rounds:  idleRounds,
		Extra:   idleWindow + 5*quietTime,
		Options: target.Options{Cold: true},
		Measure: runIdle,
	}

	// idleConnections measures a target with idle connections.
	idleConnections = Scenario{
		Name:    "idle-connections-10000",
		About:   "keep-alive connections that have carried one request each: memory of each",
		Needs:   []string{target.Start},
		Rounds:  idleRounds,
		Extra:   2 * quietTime,
		Load:    load.Spec{Kind: load.Idle, Path: "/", Connections: 10000},
		Measure: runIdleConnections,
	}
)

const (
	idleRounds = 2
	idleWindow = 20 * time.Second
	quietTime  = time.Second
)

func (r *Run) awaitQuiet() {
	d := quietTime
	if r.options.Quick {
		d = 20 * time.Millisecond
	}
	r.pause(d)
}

// measureIdle measures for about the time d how much CPU time a target uses that gets no
// requests. The result cpu is the CPU time per 20 s, in ms. The result window is the
// exact duration of the measurement, in seconds.
func (r *Run) measureIdle(m *meter, pids []int, d time.Duration) (cpu, window float64) {
	begin, before := time.Now(), m.cpu(pids...)
	r.pause(d)
	window = time.Since(begin).Seconds()
	return float64((m.cpu(pids...) - before).Nanoseconds()) / 1e6 * 20 / window, window
}

func runIdle(r *Run, st *stand, _ load.Spec) error {
	// Wait five times, so that the background work of the target's start ends before the
	// measurement.
	for range 5 {
		r.awaitQuiet()
	}
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	span := idleWindow
	if r.options.Quick {
		span = r.options.Duration
	}
	m := meter{}
	switches := m.switches(pids)
	cpu, window := r.measureIdle(&m, pids, span)
	switches = m.switches(pids).Sub(switches)
	// Read the memory last, because the kernel walks the page tables of the target for
	// this, which could disturb the other measurements.
	memory := m.memory(pids)
	if m.err != nil {
		return m.err
	}
	r.figure("rss", float64(memory.RSS)/mib, "MiB", sample.Lower)
	r.figure("private_memory", float64(memory.Private)/mib, "MiB", sample.Lower)
	r.figure("cpu_per_20s", cpu, "ms", sample.Lower)
	r.figure("wakeups_per_second", float64(switches.Voluntary)/window, "/s", sample.Lower)
	return nil
}

func runIdleConnections(r *Run, st *stand, spec load.Spec) error {
	// The first load makes the target's memory grow once. Run it before the measurement,
	// so that this growth does not count as memory of connections.
	if _, err := r.measure(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, Duration: r.options.warmup(), Warmup: time.Millisecond}); err != nil && !errors.Is(err, errUntrusted) {
		return err
	}
	r.awaitQuiet()
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	m := meter{}
	before := m.memory(pids)
	spec.Port, spec.Duration = st.instance.Port, time.Millisecond
	generator, err := load.Start(r.ctx, spec)
	if err != nil {
		return err
	}
	defer generator.Stop()
	r.awaitQuiet()
	cpu, _ := r.measureIdle(&m, pids, r.options.Duration)
	after := m.memory(pids)
	if m.err != nil {
		return m.err
	}
	r.figure("memory_per_connection", float64(after.Private-before.Private)/1024/float64(spec.Connections), "KiB", sample.Lower)
	r.figure("private_memory", float64(after.Private)/mib, "MiB", sample.Lower)
	r.figure("cpu_per_20s", cpu, "ms", sample.Lower)
	return nil
}
