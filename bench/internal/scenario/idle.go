package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/proc"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// idle is a target without requests, and one that holds connections
// on which nothing happens.
func idle() []Scenario {
	all := []Scenario{{
		Name:   "idle",
		About:  "a fresh instance, no requests, no scrapes: memory, CPU, wake-ups",
		Needs:  []string{target.Start},
		Rounds: idleRounds,
		Extra:  idleWindow + 5*quietTime,
		Run:    runIdle,
	}}
	const n = 10000
	return append(all, Scenario{
		Name:        fmt.Sprintf("idle-connections-%d", n),
		About:       "keep-alive connections that have carried one request each: memory of each",
		Needs:       []string{target.Start},
		Connections: n,
		Rounds:      idleRounds,
		Extra:       2 * quietTime,
		Run:         func(r *Run) error { return runIdleConnections(r, n) },
	})
}

const (
	idleRounds = 2
	idleWindow = 20 * time.Second
	quietTime  = time.Second
)

func (r *Run) awaitQuiet() error {
	d := quietTime
	if r.options.Quick {
		d = 20 * time.Millisecond
	}
	return r.pause(d)
}

// pause waits, or returns early with the reason for which all ends.
func (r *Run) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func runIdle(r *Run) error {
	// Cold: not even a request that finds out whether it is ready.
	st, err := r.start(target.Options{Cold: true})
	if err != nil {
		return err
	}
	defer st.stop()
	for range 5 { // what a start leaves behind takes a while to come to rest
		if err := r.awaitQuiet(); err != nil {
			return err
		}
	}
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	before, err := snapshot(pids, st.origin.PID(), pids)
	if err != nil {
		return err
	}
	span := idleWindow
	if r.options.Quick {
		span = r.options.Duration
	}
	if err := r.pause(span); err != nil {
		return err
	}
	after, err := snapshot(pids, st.origin.PID(), pids)
	if err != nil {
		return err
	}
	// Reading the memory walks the page tables, so it comes last.
	memory, err := proc.MemoryOf(pids)
	if err != nil {
		return err
	}
	window := after.at.Sub(before.at).Seconds()
	r.figure("rss", float64(memory.RSS)/mib, "MiB", sample.Lower)
	r.figure("private_memory", float64(memory.Private)/mib, "MiB", sample.Lower)
	r.figure("cpu_per_20s", float64((after.cpu-before.cpu).Nanoseconds())/1e6*20/window, "ms", sample.Lower)
	r.figure("wakeups_per_second", float64(after.switches.Sub(before.switches).Voluntary)/window, "/s", sample.Lower)
	return nil
}

func runIdleConnections(r *Run, n int) error {
	n = r.options.connections(n)
	st, err := r.start(target.Options{})
	if err != nil {
		return err
	}
	defer st.stop()
	// What the first requests leave behind is no property of connections.
	if _, err := r.measure(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, Duration: r.options.warmup(), Warmup: time.Millisecond}); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	if err := r.awaitQuiet(); err != nil {
		return err
	}
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	before, err := proc.MemoryOf(pids)
	if err != nil {
		return err
	}
	generator, err := load.Start(r.ctx, load.Spec{Kind: load.Idle, Path: "/", Connections: n, Port: st.instance.Port, Duration: time.Millisecond})
	if err != nil {
		return err
	}
	defer generator.Stop()
	if err := r.awaitQuiet(); err != nil {
		return err
	}
	cpu, err := proc.CPU(pids)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := r.pause(r.options.Duration); err != nil {
		return err
	}
	window := time.Since(begin).Seconds()
	cpuAfter, err := proc.CPU(pids)
	if err != nil {
		return err
	}
	after, err := proc.MemoryOf(pids)
	if err != nil {
		return err
	}
	r.figure("memory_per_connection", float64(after.Private-before.Private)/1024/float64(n), "KiB", sample.Lower)
	r.figure("private_memory", float64(after.Private)/mib, "MiB", sample.Lower)
	r.figure("cpu_per_20s", float64((cpuAfter-cpu).Nanoseconds())/1e6*20/window, "ms", sample.Lower)
	return nil
}
