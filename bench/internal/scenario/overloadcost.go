package scenario

import (
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

const (
	costConns = 64
	// costPairs is how often the settings are off and on, in turns.
	costPairs = 7
)

// overloadCost measures what the settings against overload cost a request that
// does not wait: two instances, one with all of them, take the same load in
// turns, each half the time first.
func overloadCost() []Scenario {
	return []Scenario{{
		Name:        "overload-cost",
		About:       "closed loop, keep-alive GET, 64 connections: CPU per request with a limit that finds itself, turns by a field and priority, beside none of them, in turns",
		Groups:      []string{"turns"},
		Extended:    true,
		Needs:       []string{target.AutoLimit, target.Turns, target.HTTP, target.Many},
		Connections: 2 * costConns,
		Times:       2 * costPairs,
		Extra:       2 * costPairs * 300 * time.Millisecond,
		Run:         runOverloadCost,
	}}
}

func runOverloadCost(r *Run) error {
	// No more wait than without a limit: what waits costs more, wherever it does.
	all := target.Options{AutoLimit: true, AutoLeast: costConns, FairBy: "X-Tenant", PriorityBy: "Priority", QueueCapacity: costConns}
	spec := load.Spec{Kind: load.HTTP, Path: "/", Connections: costConns, Field: "X-Tenant: one\r\nPriority: u=1"}
	return r.on(target.Options{}, func(off *stand) error {
		return r.on(all, func(on *stand) error {
			var without, with, ratios []float64
			for i := range costPairs {
				var pair [2]float64
				for k := range 2 {
					which := (i + k) % 2
					m, err := r.measure([]*stand{off, on}[which], spec)
					if err != nil {
						return err
					}
					pair[which] = m.microseconds()
				}
				without, with = append(without, pair[0]), append(with, pair[1])
				ratios = append(ratios, pair[1]/pair[0])
			}
			r.figure("cpu_per_request_off", sample.Median(without), "us", sample.Lower)
			r.figure("cpu_per_request_on", sample.Median(with), "us", sample.Lower)
			r.figure("on_beside_off", sample.Median(ratios), "", sample.Lower)
			return nil
		})
	})
}
