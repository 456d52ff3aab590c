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
		i, err := r.target.Launch(r.options.Dir, target.Options{Origin: o.Port(0)})
		if err != nil {
			return err
		}
		err = i.AwaitListening(r.ctx)
		listens := clock.Now()
		first := firstAnswer{err: err}
		if err == nil {
			first = r.ask(question{port: i.Port, path: r.target.Ready, timeout: 10 * time.Second, each: 10 * time.Second, pause: time.Millisecond})
		}
		i.Stop()
		if first.err != nil {
			return first.err
		}
		listening, answering = append(listening, float64(listens-i.Begun)/1e6), append(answering, float64(first.at-i.Begun)/1e6)
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

// A question is a GET that is repeated until a 200 comes.
type question struct {
	port    int
	path    string
	fields  []string
	timeout time.Duration // of all attempts
	each    time.Duration // of one
	pause   time.Duration // after a failure
	every   bool          // pause is from one attempt to the next
}

// firstAnswer is when a 200 came, by package clock, and how many attempts had
// failed.
type firstAnswer struct {
	at     int64
	failed int
	err    error
}

func (r *Run) ask(q question) (first firstAnswer) {
	deadline := time.Now().Add(q.timeout)
	for ; ; first.failed++ {
		begin := time.Now()
		status, err := target.Ask(q.port, q.path, q.each, q.fields...)
		switch {
		case err == nil && status == 200:
			first.at = clock.Now()
			return first
		case r.ctx.Err() != nil:
			first.err = r.ctx.Err()
			return first
		case time.Now().After(deadline):
			first.err = fmt.Errorf("no 200 within %v: status %d, %v", q.timeout, status, err)
			return first
		case q.every:
			r.pause(time.Until(begin.Add(q.pause)))
		default:
			r.pause(q.pause)
		}
	}
}
