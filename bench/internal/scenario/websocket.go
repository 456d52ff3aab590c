package scenario

import (
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// webSockets echo small messages, one under way on each connection.
func webSockets() []Scenario {
	return []Scenario{{
		Name:        "websocket-64",
		About:       "closed loop, WebSocket messages of 64 bytes, 64 connections",
		Needs:       []string{target.WebSocket},
		Connections: 64,
		Run: func(r *Run) error {
			st, err := r.start(target.Options{})
			if err != nil {
				return err
			}
			defer st.stop()
			return r.plain(st, load.Spec{Kind: load.WebSocket, Path: "/websocket", Body: 64, Connections: 64})
		},
	}}
}
