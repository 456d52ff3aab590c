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
	collapseWarm     = 4 * time.Second // until a limit has found itself
	collapseUnloaded = 2 * time.Second
	collapseRate     = collapseSlots * float64(time.Second) / float64(collapseDelay)
)

var collapsePath = fmt.Sprintf("/?delay=%v&slots=%d", collapseDelay, collapseSlots)

// collapseLimit is one way to limit what a container that collapses works on.
type collapseLimit struct {
	name, about string
	needs       []string
	options     target.Options
}

var collapseLimits = []collapseLimit{
	{"best", fmt.Sprintf("the best fixed limit, %d", collapseSlots), []string{target.Bound, target.HTTP},
		target.Options{Limit: collapseSlots, QueueCapacity: collapseQueue}},
	{"auto", "a limit that finds itself", []string{target.AutoLimit, target.HTTP},
		target.Options{AutoLimit: true, QueueCapacity: collapseQueue}},
	{"none", "no limit", []string{target.HTTP}, target.Options{}},
}

// collapses send several times what a container can do to one whose throughput
// falls when it works on more than collapseSlots requests: with the best fixed
// limit, which is that, with one that finds itself, and with none.
func collapses() []Scenario {
	var all []Scenario
	add := func(limit collapseLimit, s Scenario, run func(*Run, *stand) error) {
		s.Name, s.About = s.Name+limit.name, s.About+"; "+limit.about
		s.Groups, s.Extended, s.Needs, s.Connections = []string{"collapse"}, true, limit.needs, collapseConns
		s.Run = func(r *Run) error { return r.on(limit.options, func(st *stand) error { return run(r, st) }) }
		all = append(all, s)
	}
	for _, load := range []int{1, 3, 10} {
		for _, limit := range collapseLimits {
			add(limit, Scenario{
				Name: fmt.Sprintf("collapse-%d-", load),
				About: fmt.Sprintf("open loop at %d times the capacity of %.0f/s of a container that gets slower beyond %d requests at once",
					load, collapseRate, collapseSlots),
				Extra: collapseUnloaded + collapseWarm + 2*time.Second,
			}, func(r *Run, st *stand) error { return runCollapse(r, st, float64(load)) })
		}
	}
	for _, limit := range collapseLimits {
		add(limit, Scenario{
			Name: "collapse-step-",
			About: fmt.Sprintf("open loop at %.0f/s; after %v the container works on %d requests at once instead of %d, and on %d again after as long",
				stepRate, stepTime, stepSlots, collapseSlots, collapseSlots),
			Extra: 3*stepTime + collapseWarm + time.Second,
			Times: 1e-9,
		}, runStep)
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
		r.note("not one request was answered: %s", failures(m.Result))
		return nil
	}
	if p := unloaded.Quantile(99); p > 0 {
		r.figure("p99_beside_unloaded", m.Quantile(99)/p, "", sample.Lower)
	}
	r.figure("refused_share", m.failedShare(), "", sample.Neither)
	r.latency(m.Result)
	return nil
}
