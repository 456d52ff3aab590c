package scenario

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// starts is a scenario that starts the target many times in each round, and records the
// median start-up time.
var starts = Scenario{
	Name:  "start",
	About: "from exec to listening and to the first 200, median of many starts; size of the binary",
	Needs: []string{target.Start},
	Extra: 2 * time.Second,
	Times: 0.01,
	Run:   runStart,
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
	var listening, responding []float64
	for range times {
		i, err := r.target.Launch(r.options.Dir, target.Options{Origin: o.Port(0)})
		if err != nil {
			return err
		}
		err = i.AwaitListening(r.ctx)
		listens, responds := clock.Now(), int64(0)
		if err == nil {
			responds, _, err = r.ask(question{port: i.Port, path: r.target.Ready, timeout: 10 * time.Second, each: 10 * time.Second, pause: time.Millisecond})
		}
		i.Stop()
		if err != nil {
			return err
		}
		listening, responding = append(listening, float64(listens-i.Begun)/1e6), append(responding, float64(responds-i.Begun)/1e6)
	}
	r.figure("exec_to_listening", sample.Median(listening), "ms", sample.Lower)
	r.figure("exec_to_first_200", sample.Median(responding), "ms", sample.Lower)
	if r.round == 1 {
		size, err := r.target.BinarySize()
		if err != nil {
			return err
		}
		r.record.keep(r.record.Figure(sample.Figure{Scenario: r.scenario.Name, Target: r.target.Name,
			Figure: "binary_size", Value: float64(size) / mib, Unit: "MiB", Better: sample.Lower}))
	}
	return nil
}

// A question is a GET request that is repeated until the response is 200.
type question struct {
	port    int
	path    string
	fields  []string
	timeout time.Duration // limit for all attempts together
	each    time.Duration // limit for each attempt
	pause   time.Duration // pause after a failed attempt
	every   bool          // pause begins at the start of the attempt, not at its end
}

// ask repeats the request q until a response has status 200. The result at is the time of
// this response, by package clock. The result failed is the number of failed attempts.
func (r *Run) ask(q question) (at int64, failed int, err error) {
	deadline := time.Now().Add(q.timeout)
	for ; ; failed++ {
		begin := time.Now()
		status, err := target.Ask(q.port, q.path, q.each, q.fields...)
		switch {
		case err == nil && status == 200:
			return clock.Now(), failed, nil
		case r.ctx.Err() != nil:
			return 0, failed, r.ctx.Err()
		case time.Now().After(deadline):
			return 0, failed, fmt.Errorf("no 200 within %v: status %d, %v", q.timeout, status, err)
		case q.every:
			r.pause(time.Until(begin.Add(q.pause)))
		default:
			r.pause(q.pause)
		}
	}
}

const (
	coldWait  = 500 * time.Millisecond // time until the container listens
	coldRetry = 10 * time.Millisecond  // pause of a client after a failed request
	coldTimes = 5
)

// In coldStart a client sends a request before the container listens. The target queues
// the request, or the request fails and the client repeats it.
var coldStart = Scenario{
	Name:  "cold-start",
	About: "a client waits while the container starts; from its listening to the client's 200",
	Needs: []string{target.HTTP, target.Start},
	Extra: coldTimes * (coldWait + 100*time.Millisecond),
	Times: 0.01,
	Run:   runColdStart,
}

func runColdStart(r *Run) error {
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
}

// coldOnce measures one cold start. It returns:
//   - delay: the time in ms from the container's listen(2) to the first response 200
//   - failed: the number of requests that failed before this response
//   - cpu: the CPU time in ms that the target used from the first request until then
func (r *Run) coldOnce() (delay, failed, cpu float64, err error) {
	wait := coldWait
	if r.options.Quick {
		wait = 50 * time.Millisecond
	}
	o, err := origin.Start(r.ctx, origin.Spec{Ports: 1, ReserveOnly: true})
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
	var client sync.WaitGroup
	var respondedAt int64
	var failures int
	var askErr error
	client.Go(func() {
		all := wait + 10*time.Second
		respondedAt, failures, askErr = r.ask(question{port: i.Port, path: r.target.Ready, timeout: all, each: all, pause: coldRetry})
	})
	defer client.Wait()
	r.pause(wait)
	listening, err := o.Listen()
	if err != nil {
		return 0, 0, 0, err
	}
	client.Wait()
	used := m.cpu(pids...) - before
	return float64(respondedAt-listening) / 1e6, float64(failures), float64(used.Microseconds()) / 1e3, errors.Join(askErr, m.err)
}

const (
	fleetSize = 20
	fleetWait = 2 * time.Second // time until the containers listen
	// The interval is that of Knative's activator.
	pollPeriod  = 200 * time.Millisecond
	pollTimeout = 300 * time.Millisecond
)

var probeFields = []string{"User-Agent: Knative-Activator-Probe", "K-Network-Probe: queue"}

// fleet starts many instances at once, each with a prober that waits until the container
// is ready.
var fleet = Scenario{
	Name:  "fleet",
	About: fmt.Sprintf("%d cold starts at once, each probed every %v: CPU, delay of readiness, memory", fleetSize, pollPeriod),
	Needs: []string{target.HTTP, target.Start, target.Many},
	Extra: fleetWait + time.Second,
	Times: 0.01,
	Run:   runFleet,
}

func runFleet(r *Run) error {
	size, wait := fleetSize, fleetWait
	if r.options.Quick {
		size, wait = 2, 50*time.Millisecond
	}
	var fields []string
	if _, ok := r.target.Can(target.Probe); ok {
		fields = probeFields
	}
	o, err := origin.Start(r.ctx, origin.Spec{Ports: size, ReserveOnly: true})
	if err != nil {
		return err
	}
	defer o.Stop()
	instances := make([]*target.Instance, 0, size)
	defer func() {
		for _, i := range instances {
			i.Stop()
		}
	}()
	for n := range size {
		i, err := r.target.Launch(r.options.Dir, target.Options{Origin: o.Port(n), Cold: true})
		if err != nil {
			return err
		}
		instances = append(instances, i)
	}
	for _, i := range instances {
		if err := i.AwaitListening(r.ctx); err != nil {
			return err
		}
	}
	ready, errs := make([]int64, size), make([]error, size)
	var pollers sync.WaitGroup
	for n, i := range instances {
		// Spread the probers over a period. Otherwise all delays would be equal, and
		// would depend only on fleetWait.
		first := time.Duration(n) * pollPeriod / time.Duration(size)
		pollers.Go(func() {
			r.pause(first)
			ready[n], _, errs[n] = r.ask(question{i.Port, "/", fields, wait + 20*time.Second, pollTimeout, pollPeriod, true})
		})
	}
	defer pollers.Wait()
	r.pause(wait)
	var pids []int
	for _, i := range instances {
		own, err := i.Processes()
		if err != nil {
			return err
		}
		pids = append(pids, own...)
	}
	m := meter{}
	waiting := m.cpu(pids...)
	listening, err := o.Listen()
	if err != nil {
		return err
	}
	pollers.Wait()
	total, memory := m.cpu(pids...), m.memory(pids)
	if err := errors.Join(append(errs, m.err)...); err != nil {
		return err
	}
	var delays []float64
	for _, at := range ready {
		delays = append(delays, float64(at-listening)/1e6)
	}
	spread := sample.SpreadOf(delays)
	r.figure("cpu_until_listening", float64(waiting.Microseconds())/1e3/float64(size), "ms", sample.Lower)
	r.figure("cpu_until_ready", float64(total.Microseconds())/1e3/float64(size), "ms", sample.Lower)
	r.figure("readiness_delay_median", spread.Median, "ms", sample.Lower)
	r.figure("readiness_delay_max", spread.Max, "ms", sample.Lower)
	r.figure("private_memory_total", float64(memory.Private)/mib, "MiB", sample.Lower)
	r.figure("private_memory_each", float64(memory.Private)/mib/float64(size), "MiB", sample.Lower)
	return nil
}
