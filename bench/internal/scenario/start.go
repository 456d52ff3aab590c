package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// starts is how fast a target is there: many starts, the median of each round.
func starts() []Scenario {
	return []Scenario{{
		Name:  "start",
		About: "from exec to listening and to the first 200, median of many starts; size of the binary",
		Needs: []string{target.Start},
		Extra: 2 * time.Second,
		Times: 0.01,
		Run:   runStart,
	}}
}

func runStart(r *Run) error {
	times := 21
	if r.options.Quick {
		times = 3
	}
	o, err := origin.Start(r.ctx, origin.Spec{Ports: 1})
	if err != nil {
		return err
	}
	defer o.Stop()
	var listening, answering []float64
	for range times {
		l, a, err := r.startOnce(o.Port(0))
		if err != nil {
			return err
		}
		listening, answering = append(listening, l), append(answering, a)
	}
	r.figure("exec_to_listening", sample.Median(listening), "ms", sample.Lower)
	r.figure("exec_to_first_200", sample.Median(answering), "ms", sample.Lower)
	if r.round == 1 {
		size, err := r.target.BinarySize()
		if err != nil {
			return err
		}
		// The size belongs to no round.
		r.record.keep(r.record.Figure(sample.Figure{Scenario: r.scenario.Name, Target: r.target.Name,
			Figure: "binary_size", Value: float64(size) / mib, Unit: "MiB", Better: sample.Lower}))
	}
	return nil
}

// startOnce returns the milliseconds until one start listens and until it has
// answered a first request.
func (r *Run) startOnce(originPort int) (listening, answering float64, err error) {
	i, err := r.target.Launch(r.options.Dir, target.Options{Origin: originPort})
	if err != nil {
		return 0, 0, err
	}
	defer i.Stop()
	if err := i.AwaitListening(r.ctx); err != nil {
		return 0, 0, err
	}
	listening = float64(clock.Now()-i.Begun) / 1e6
	first, _, err := r.firstAnswer(i.Port, 10*time.Second, time.Millisecond)
	if err != nil {
		return 0, 0, err
	}
	return listening, float64(first-i.Begun) / 1e6, nil
}

// firstAnswer asks until a request is answered with 200, and returns when that
// was, by package clock, and how many failed before. After a failure it pauses.
func (r *Run) firstAnswer(port int, timeout, pause time.Duration, fields ...string) (at int64, failed int, err error) {
	deadline := time.Now().Add(timeout)
	for {
		status, err := target.Ask(port, r.target.Ready, timeout, fields...)
		if err == nil && status == 200 {
			return clock.Now(), failed, nil
		}
		failed++
		if time.Now().After(deadline) {
			return 0, failed, fmt.Errorf("no 200 within %v: status %d, %v", timeout, status, err)
		}
		if err := r.pause(pause); err != nil {
			return 0, failed, err
		}
	}
}
