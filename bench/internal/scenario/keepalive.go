package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// keepAlive is the saturating closed loop: small GETs on connections that stay.
func keepAlive() []Scenario {
	var all []Scenario
	for _, n := range []int{1, 16, 64, 256, 1000, 4000, 10000} {
		all = append(all, Scenario{
			Name:   fmt.Sprintf("keepalive-%d", n),
			About:  fmt.Sprintf("closed loop, keep-alive GET of 12 bytes, connections: %d", n),
			Groups: []string{"keepalive", "growth"},
			// The others are points of the growth curve in between.
			Extended:    !slices.Contains([]int{1, 64, 1000, 10000}, n),
			Connections: n,
			Extra:       time.Duration(n) * 100 * time.Microsecond,
			Run: func(r *Run) error {
				st, err := r.start(target.Options{})
				if err != nil {
					return err
				}
				defer st.stop()
				return r.plain(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: r.options.connections(n)})
			},
		})
	}
	return all
}

// mostUnderWay is how many requests openConnections has under way at once.
const mostUnderWay = 64

// openConnections is the same with a request under way on few connections at a
// time and on all in turn: what a connection costs that is open, apart from
// what a request costs that is under way.
func openConnections() []Scenario {
	var all []Scenario
	for _, n := range []int{64, 256, 1000, 4000, 10000} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("open-connections-%d", n),
			About: fmt.Sprintf("closed loop, keep-alive GET of 12 bytes, on %d at a time of all connections in turn; connections: %d",
				mostUnderWay, n),
			Groups:      []string{"open-connections", "growth"},
			Extended:    n != 10000,
			Connections: n,
			Extra:       time.Duration(n) * 100 * time.Microsecond,
			Run: func(r *Run) error {
				st, err := r.start(target.Options{})
				if err != nil {
					return err
				}
				defer st.stop()
				return r.plain(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: r.options.connections(n), UnderWay: mostUnderWay})
			},
		})
	}
	return all
}

// limited is the same as keepAlive with a concurrency limit that half of the connections
// exceed, so half of them always wait in the queue.
func limited() []Scenario {
	return []Scenario{{
		Name:        "keepalive-64-limit-32",
		About:       "closed loop, keep-alive GET, 64 connections, concurrency limit 32",
		Needs:       []string{target.Limit},
		Connections: 64,
		Run: func(r *Run) error {
			st, err := r.start(target.Options{Limit: 32})
			if err != nil {
				return err
			}
			defer st.stop()
			return r.plain(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: 64})
		},
	}}
}

// fresh opens a connection for each request.
func fresh() []Scenario {
	return []Scenario{{
		Name:        "new-connection",
		About:       "closed loop, GET, a new connection for each request, 64 at once",
		Connections: 64,
		Run: func(r *Run) error {
			st, err := r.start(target.Options{})
			if err != nil {
				return err
			}
			defer st.stop()
			return r.plain(st, load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, Fresh: true})
		},
	}}
}
