package scenario

import (
	"time"

	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	coldWait  = 500 * time.Millisecond // until the container listens
	coldRetry = 10 * time.Millisecond  // a client's pause after a failure
	coldTimes = 5
)

// coldStart has a client that waits for a container that does not listen yet:
// its request is held or fails; if it fails it tries again.
func coldStart() []Scenario {
	return []Scenario{{
		Name:  "cold-start",
		About: "a client waits while the container starts; from its listening to the client's 200",
		Needs: []string{target.HTTP, target.Start},
		Extra: coldTimes * (coldWait + 100*time.Millisecond),
		Times: 0.01,
		Run: func(r *Run) error {
			times := coldTimes
			if r.options.Quick {
				times = 1
			}
			var delays, failed, cpu []float64
			for range times {
				d, f, c, err := r.coldOnce()
				if err != nil {
					return err
				}
				delays, failed, cpu = append(delays, d), append(failed, f), append(cpu, c)
			}
			r.figure("listening_to_first_200", sample.Median(delays), "ms", sample.Lower)
			r.figure("failed_requests", sample.Median(failed), "", sample.Lower)
			r.figure("cpu_waiting", sample.Median(cpu), "ms", sample.Lower)
			return nil
		},
	}}
}

// coldOnce returns the milliseconds from the container's listening to the
// client's 200, how many of its requests failed, and the milliseconds of CPU
// that the target used from the first request to the 200.
func (r *Run) coldOnce() (delay, failed, cpu float64, err error) {
	wait := coldWait
	if r.options.Quick {
		wait = 50 * time.Millisecond
	}
	o, err := origin.Start(r.ctx, origin.Spec{Ports: 1, Hold: true})
	if err != nil {
		return 0, 0, 0, err
	}
	defer o.Stop()
	i, err := r.target.Start(r.ctx, r.options.Dir, target.Options{Origin: o.Port(0), Cold: true}, o.PID())
	if err != nil {
		return 0, 0, 0, err
	}
	defer i.Stop()
	pids, err := i.Processes()
	if err != nil {
		return 0, 0, 0, err
	}
	m := meter{}
	before := m.cpu(pids...)
	answered := make(chan firstAnswer, 1)
	go func() {
		all := wait + 10*time.Second
		answered <- r.ask(question{port: i.Port, path: r.target.Ready, timeout: all, each: all, pause: coldRetry})
	}()
	r.pause(wait)
	listening, err := o.Listen(r.ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	first := <-answered
	if first.err != nil {
		return 0, 0, 0, first.err
	}
	used := m.cpu(pids...) - before
	return float64(first.at-listening) / 1e6, float64(first.failed), float64(used.Microseconds()) / 1e3, m.err
}
