package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	stepSlots = 3 * collapseSlots
	stepTime  = 8 * time.Second
	stepRate  = 3 * 3 * collapseRate
	// stepShare of the capacity is what a limit that has converged brings.
	stepShare = 0.85
)

// runStep measures how long a limit takes to follow a container whose slots
// move up and down again.
func runStep(r *Run, st *stand) error {
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
	result, err := generator.Run(r.ctx)
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
	up := converged(line[perStep:2*perStep], 3*collapseRate)
	down := converged(line[2*perStep:3*perStep], collapseRate)
	r.figure("converged_up", up.Seconds(), "s", sample.Lower)
	r.figure("converged_down", down.Seconds(), "s", sample.Lower)
	r.figure("converged", max(up, down).Seconds(), "s", sample.Lower)
	for i, capacity := range []float64{collapseRate, 3 * collapseRate, collapseRate} {
		n := int64(0)
		for _, c := range line[(i+1)*perStep-perStep/2 : (i+1)*perStep] { // the second half of each
			n += c
		}
		r.figure(fmt.Sprintf("goodput_of_capacity_%d", i+1), float64(n)/(step.Seconds()/2)/capacity, "", sample.Higher)
	}
	return nil
}

// moveSlots moves those of the container up and down.
func (r *Run) moveSlots(st *stand, step time.Duration) error {
	for _, slots := range []int{stepSlots, collapseSlots} {
		r.pause(step)
		if status, err := target.Ask(st.origin.Port(0), fmt.Sprintf("/slots/%d", slots), time.Minute); err != nil || status != 200 {
			return fmt.Errorf("moving the slots of the container: status %d, %v", status, err)
		}
	}
	return nil
}

// converged is the time after which a second brings stepShare of the capacity;
// the length of the line if none does.
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
