package scenario

import (
	"fmt"
	"sync"
	"time"

	"github.com/queuegate/queuegate/bench/internal/origin"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	fleetSize = 20
	fleetWait = 2 * time.Second // until the containers listen
	// Pollers ask as Knative's activator does.
	pollPeriod  = 200 * time.Millisecond
	pollTimeout = 300 * time.Millisecond
)

var probeFields = []string{"User-Agent: Knative-Activator-Probe", "K-Network-Probe: queue"}

// fleet starts many instances on one machine at once, each with a poller that
// wants to know when its container is ready.
func fleet() []Scenario {
	return []Scenario{{
		Name:  "fleet",
		About: fmt.Sprintf("%d cold starts at once, each with a poller every %v: CPU, delay of readiness, memory", fleetSize, pollPeriod),
		Needs: []string{target.HTTP, target.Start, target.Many},
		Extra: fleetWait + time.Second,
		Times: 0.01,
		Run:   runFleet,
	}}
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
	o, err := origin.Start(r.ctx, origin.Spec{Ports: size, Hold: true})
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
	ready := make([]firstAnswer, size)
	var pollers sync.WaitGroup
	for n, i := range instances {
		// One after the other within a period: in step, all delays would be the
		// same one, which the length of the wait decides.
		first := time.Duration(n) * pollPeriod / time.Duration(size)
		pollers.Go(func() {
			r.pause(first)
			ready[n] = r.ask(question{i.Port, "/", fields, wait + 20*time.Second, pollTimeout, pollPeriod, true})
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
	listening, err := o.Listen(r.ctx)
	if err != nil {
		return err
	}
	pollers.Wait()
	total, memory := m.cpu(pids...), m.memory(pids)
	if m.err != nil {
		return m.err
	}
	var delays []float64
	for _, a := range ready {
		if a.err != nil {
			return a.err
		}
		delays = append(delays, float64(a.at-listening)/1e6)
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
