package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	collapseSlots = 8
	collapseDelay = 20 * time.Millisecond
	collapseConns = 400
	collapseWarm  = 4 * time.Second // until a limit has found itself
	collapseRate  = collapseSlots * float64(time.Second) / float64(collapseDelay)
)

// collapses send several times what a container can do to one whose throughput
// falls when it works on more than collapseSlots requests: with the best fixed
// limit, which is that, with one that finds itself, and with none.
func collapses() []Scenario {
	var all []Scenario
	for _, load := range []int{1, 3, 10} {
		for _, limit := range []struct {
			name, about string
			needs       []string
			options     target.Options
		}{
			{"best", fmt.Sprintf("the best fixed limit, %d", collapseSlots), []string{target.Limit, target.HTTP},
				target.Options{Limit: collapseSlots, QueueCapacity: collapseSlots}},
			{"auto", "a limit that finds itself", []string{target.AutoLimit, target.HTTP},
				target.Options{AutoLimit: true, QueueCapacity: collapseSlots}},
			{"none", "no limit", []string{target.HTTP}, target.Options{}},
		} {
			all = append(all, Scenario{
				Name: fmt.Sprintf("collapse-%d-%s", load, limit.name),
				About: fmt.Sprintf("open loop at %d times the capacity of %.0f/s of a container that gets slower beyond %d requests at once; %s",
					load, collapseRate, collapseSlots, limit.about),
				Groups:      []string{"collapse"},
				Extended:    true,
				Needs:       limit.needs,
				Connections: collapseConns,
				Extra:       collapseWarm + time.Second,
				Run:         func(r *Run) error { return runCollapse(r, float64(load), limit.options) },
			})
		}
	}
	return all
}

func runCollapse(r *Run, times float64, options target.Options) error {
	st, err := r.start(options)
	if err != nil {
		return err
	}
	defer st.stop()
	m, err := r.observe(st, load.Spec{
		Kind: load.HTTP, Path: fmt.Sprintf("/?delay=%v&slots=%d", collapseDelay, collapseSlots),
		Connections: collapseConns, Rate: times * collapseRate, Warmup: collapseWarm,
	})
	if err != nil {
		return err
	}
	seconds := r.options.Duration.Seconds()
	r.figure("goodput", float64(m.Window)/seconds, "/s", sample.Higher)
	r.figure("goodput_of_capacity", float64(m.Window)/seconds/collapseRate, "", sample.Higher)
	if m.Requests == 0 {
		r.note("not one request was answered: %s", failures(m.Result))
		return nil
	}
	r.figure("refused_share", float64(m.Failures())/float64(m.Requests+m.Failures()), "", sample.Neither)
	r.latency(m.Result)
	return nil
}
