package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	collapseSlots    = 8
	collapseDelay    = 20 * time.Millisecond
	collapseQueue    = collapseSlots / 2
	collapseConns    = 400
	collapseWarm     = 4 * time.Second // time until an adaptive limit has converged
	collapseUnloaded = 2 * time.Second
	collapseRate     = collapseSlots * float64(time.Second) / float64(collapseDelay)
)

var collapsePath = fmt.Sprintf("/?delay=%v&slots=%d", collapseDelay, collapseSlots)

// collapseLimit is a way to limit the concurrency of the container.
type collapseLimit struct {
	name, about string
	needs       []string
	options     target.Options
}

var collapseLimits = []collapseLimit{
	{"best", fmt.Sprintf("the best fixed limit, %d", collapseSlots), []string{target.Bound, target.HTTP},
		target.Options{Limit: collapseSlots, QueueCapacity: collapseQueue}},
	{"auto", "an adaptive limit", []string{target.AutoLimit, target.HTTP},
		target.Options{AutoLimit: true, QueueCapacity: collapseQueue}},
	{"none", "no limit", []string{target.HTTP}, target.Options{}},
}

// collapses returns scenarios with a container that becomes slower if it processes more
// than collapseSlots requests at once. There is a scenario for each of collapseLimits,
// with a load of 1, 3 and 10 times the capacity. In the scenarios collapse-step-* the
// load is constant, and the container's number of slots changes during the run.
func collapses() []Scenario {
	var all []Scenario
	add := func(limit collapseLimit, s Scenario) {
		s.Name, s.About = s.Name+limit.name, s.About+"; "+limit.about
		s.Groups, s.Extended, s.Needs, s.Connections = []string{"collapse"}, true, limit.needs, collapseConns
		s.Options = limit.options
		all = append(all, s)
	}
	for _, times := range []int{1, 3, 10} {
		for _, limit := range collapseLimits {
			add(limit, Scenario{
				Name: fmt.Sprintf("collapse-%d-", times),
				About: fmt.Sprintf("open loop at %d times the capacity of %.0f/s of a container that gets slower beyond %d concurrent requests",
					times, collapseRate, collapseSlots),
				Extra:   collapseUnloaded + collapseWarm + 2*time.Second,
				Measure: func(r *Run, st *stand, _ load.Spec) error { return runCollapse(r, st, float64(times)) },
			})
		}
	}
	for _, limit := range collapseLimits {
		add(limit, Scenario{
			Name: "collapse-step-",
			About: fmt.Sprintf("open loop at %.0f/s; after %v the container has %d slots instead of %d, and after as long %d again",
				stepRate, stepTime, stepSlots, collapseSlots, collapseSlots),
			Extra:   3*stepTime + collapseWarm + time.Second,
			Times:   1e-9,
			Measure: runStep,
		})
	}
	return all
}

func runCollapse(r *Run, st *stand, times float64) error {
	spec := load.Spec{
		Kind: load.HTTP, Path: collapsePath, Connections: collapseConns, Rate: 0.3 * collapseRate,
		Duration: min(collapseUnloaded, 2*r.options.Duration),
	}
	unloaded, err := r.observe(st, spec)
	if err != nil {
		return err
	}
	spec.Rate, spec.Warmup, spec.Duration = times*collapseRate, collapseWarm, r.options.Duration
	m, err := r.observe(st, spec)
	if err != nil {
		return err
	}
	r.goodput(m, collapseRate)
	if m.Requests == 0 {
		r.note("no request succeeded: %s", failures(m.Result))
		return nil
	}
	if p := unloaded.Quantile(99); p > 0 {
		r.figure("p99_beside_unloaded", m.Quantile(99)/p, "", sample.Lower)
	}
	r.figure("rejected_share", m.failedShare(), "", sample.Neither)
	r.latency(m.Result)
	return nil
}

const (
	stepSlots = 3 * collapseSlots
	stepTime  = 8 * time.Second
	stepRate  = 3 * 3 * collapseRate
	// A limit has converged when throughput reaches this share of the capacity.
	stepShare = 0.85
)

// runStep measures how long an adaptive limit needs to follow the container when its
// number of slots rises and falls.
func runStep(r *Run, st *stand, _ load.Spec) error {
	step := min(stepTime, 8*r.options.Duration)
	generator, err := load.Start(r.ctx, load.Spec{
		Kind: load.HTTP, Path: collapsePath, Connections: collapseConns, Rate: stepRate, Port: st.instance.Port,
		Warmup: min(collapseWarm, 4*r.options.Duration), Duration: 3 * step, Timeline: true,
	})
	if err != nil {
		return err
	}
	defer generator.Stop()
	moved := make(chan error, 1)
	go func() { moved <- r.moveSlots(st, step) }()
	result, err := generator.Run()
	if err != nil {
		return err
	}
	if err := <-moved; err != nil {
		return err
	}
	perStep := int(step / load.TimelineStep)
	line := result.Timeline
	if len(line) < 3*perStep {
		return fmt.Errorf("a timeline of %d counts, want %d", len(line), 3*perStep)
	}
	ascending := converged(line[perStep:2*perStep], 3*collapseRate)
	descending := converged(line[2*perStep:3*perStep], collapseRate)
	r.figure("converged_up", ascending.Seconds(), "s", sample.Lower)
	r.figure("converged_down", descending.Seconds(), "s", sample.Lower)
	r.figure("converged", max(ascending, descending).Seconds(), "s", sample.Lower)
	for i, capacity := range []float64{collapseRate, 3 * collapseRate, collapseRate} {
		n := int64(0)
		for _, c := range line[(i+1)*perStep-perStep/2 : (i+1)*perStep] { // second half of each step
			n += c
		}
		r.figure(fmt.Sprintf("goodput_of_capacity_%d", i+1), float64(n)/(step.Seconds()/2)/capacity, "", sample.Higher)
	}
	return nil
}

// moveSlots raises the container's number of slots, and reduces it again.
func (r *Run) moveSlots(st *stand, step time.Duration) error {
	for _, slots := range []int{stepSlots, collapseSlots} {
		r.pause(step)
		if status, err := target.Ask(st.origin.Port(0), fmt.Sprintf("/slots/%d", slots), time.Minute); err != nil || status != 200 {
			return fmt.Errorf("moving the slots of the container: status %d, %v", status, err)
		}
	}
	return nil
}

// converged returns the time until the limit has converged. The parameter line has the
// number of successful requests per load.TimelineStep. The limit has converged when a
// second begins in which the throughput is at least stepShare of the capacity. If there
// is no such second, converged returns the duration of the whole line.
func converged(line []int64, capacity float64) time.Duration {
	const second = int(time.Second / load.TimelineStep)
	sum := int64(0)
	for i, n := range line {
		if sum += n; i >= second {
			sum -= line[i-second]
		}
		if i >= second-1 && float64(sum) >= stepShare*capacity {
			return time.Duration(i+1-second) * load.TimelineStep
		}
	}
	return time.Duration(len(line)) * load.TimelineStep
}
