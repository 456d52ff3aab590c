package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	turnsLimit = 32
	turnsDelay = 20 * time.Millisecond
	turnsRate  = turnsLimit * float64(time.Second) / float64(turnsDelay) // what the container can do
	turnsConns = 400
)

// turns measure one client while another floods: first alone, then beside ten
// times what the container can do.
func turns() []Scenario {
	about := func(what string) string {
		return fmt.Sprintf("open loop, %s beside a flood of 10 times the capacity of %.0f/s (limit %d, %v each): latency beside that of alone, refusals",
			what, turnsRate, turnsLimit, turnsDelay)
	}
	one := func(name, what string, rate float64, options target.Options, quiet, flood string) Scenario {
		options.Limit, options.QueueCapacity = turnsLimit, 10*turnsLimit
		return Scenario{
			Name: name, About: about(what), Groups: []string{"turns"}, Extended: true,
			Needs: []string{target.Turns, target.HTTP}, Connections: 2 * turnsConns, Times: 2, Extra: 2 * time.Second,
			Run: func(r *Run) error { return runTurns(r, rate, options, quiet, flood) },
		}
	}
	return []Scenario{
		one("tenant-fair", "a tenant at a tenth of its share", turnsRate/2/10, target.Options{FairBy: "X-Tenant"}, "X-Tenant: quiet", "X-Tenant: flood"),
		one("tenant-fifo", "a tenant at a tenth of its share, strict FIFO,", turnsRate/2/10, target.Options{}, "X-Tenant: quiet", "X-Tenant: flood"),
		one("class-first", "the highest class at half the capacity", turnsRate/2, target.Options{PriorityBy: "Priority"}, "Priority: 0", "Priority: 7"),
	}
}

func runTurns(r *Run, rate float64, options target.Options, quiet, flood string) error {
	st, err := r.start(options)
	if err != nil {
		return err
	}
	defer st.stop()
	path := "/?delay=" + turnsDelay.String()
	spec := load.Spec{Kind: load.HTTP, Path: path, Connections: turnsConns, Rate: rate, Field: quiet}
	alone, err := r.observe(st, spec)
	if err != nil {
		return err
	}
	other, err := load.Start(r.ctx, load.Spec{
		Kind: load.HTTP, Path: path, Connections: turnsConns, Rate: 10 * turnsRate, Field: flood, Port: st.instance.Port,
		Warmup: time.Second, Duration: 3*r.options.Duration + time.Second,
	})
	if err != nil {
		return err
	}
	defer other.Stop()
	flooding := make(chan error, 1)
	go func() {
		_, err := other.Run(r.ctx)
		flooding <- err
	}()
	if err := r.pause(time.Second); err != nil {
		return err
	}
	beside, err := r.observe(st, spec)
	if err != nil {
		return err
	}
	select {
	case err := <-flooding:
		return fmt.Errorf("the flood ended first: %v", err)
	default:
	}
	if beside.Requests > 0 && alone.Requests > 0 {
		r.figure("p99_beside_alone", percentile(beside.Result, 99)/percentile(alone.Result, 99), "", sample.Lower)
	}
	r.figure("refused_share", float64(beside.Failures())/max(1, float64(beside.Requests+beside.Failures())), "", sample.Lower)
	r.latency(beside.Result)
	return nil
}

// percentile is one of the result's latencies, in ns.
func percentile(res *load.Result, p float64) float64 {
	for _, q := range res.Quantiles {
		if q[0] == p {
			return q[1]
		}
	}
	return 0
}
