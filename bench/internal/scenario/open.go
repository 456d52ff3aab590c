package scenario

import (
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// open is a constant rate far below saturation: what a proxy adds to latency.
func open() []Scenario {
	return []Scenario{{
		Name:        "open-2000",
		About:       "open loop, 2,000 GETs per second over 64 connections",
		Added:       true,
		Connections: 64,
		Run: func(r *Run) error {
			st, err := r.start(target.Options{})
			if err != nil {
				return err
			}
			defer st.stop()
			return r.plain(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, Rate: 2000})
		},
	}}
}
