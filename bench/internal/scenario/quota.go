package scenario

import (
	"errors"
	"fmt"
	"os"

	"github.com/queuegate/queuegate/bench/internal/cgroup"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
)

// quotas give the target a part of a core, as Kubernetes does for
// resources.limits.cpu. Direct has none: it is what the rest is compared with.
func quotas() []Scenario {
	var all []Scenario
	for _, millis := range []int{100, 250} {
		all = append(all, Scenario{
			Name:    fmt.Sprintf("quota-%dm", millis),
			About:   fmt.Sprintf("open loop, 300 GETs per second over 16 connections, CPU quota %dm", millis),
			Groups:  []string{"quota"},
			Added:   true,
			Load:    load.Spec{Kind: load.HTTP, Path: "/", Connections: 16, Rate: 300},
			Measure: func(r *Run, st *stand, spec load.Spec) error { return runQuota(r, st, spec, millis) },
		})
	}
	return all
}

func runQuota(r *Run, st *stand, spec load.Spec, millis int) error {
	place, err := cgroup.Find()
	if err != nil {
		r.note("skipped: %v", err)
		return nil
	}
	if r.isDirect() {
		return r.plain(st, spec)
	}
	group, err := place.Create(fmt.Sprintf("queuegate-bench-%d", os.Getpid()), millis)
	if err != nil {
		return err
	}
	defer func() {
		st.instance.Stop() // the group must be empty
		r.record.keep(group.Remove())
	}()
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := group.Add(pid); err != nil {
			return err
		}
	}
	// The warm-up is inside the quota too; what it cost is not counted.
	before, err := group.Stat()
	if err != nil {
		return err
	}
	m, err := r.measure(st, spec)
	if err != nil && !errors.Is(err, errRefused) {
		return err
	}
	after, statErr := group.Stat()
	if statErr != nil {
		return statErr
	}
	felt := after.Sub(before)
	r.figure("throttled_periods", float64(felt.Throttled), "", sample.Lower)
	r.figure("throttled_time", float64(felt.Held.Microseconds())/1e3, "ms", sample.Lower)
	if err != nil {
		return nil
	}
	r.costs(m)
	r.generator(m, true)
	r.latency(m.Result)
	return nil
}
