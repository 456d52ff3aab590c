package scenario

import (
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// chunks are server-sent events, a chunk each, that carry the time at which the
// origin wrote them.
func chunks() []Scenario {
	return []Scenario{{
		Name:        "chunk-delay",
		About:       "16 streams of server-sent events, one each 10 ms; delay from origin to client",
		Added:       true,
		Connections: 16,
		Run: func(r *Run) error {
			st, err := r.start(target.Options{})
			if err != nil {
				return err
			}
			defer st.stop()
			m, err := r.measure(st, load.Spec{Kind: load.Events, Path: "/events?every=10ms", Connections: 16})
			if err != nil {
				return err
			}
			if !r.isDirect() {
				r.figure("cpu_per_event", m.perRequest(float64(m.cpu.Nanoseconds()))/1e3, "us", sample.Lower)
			}
			r.latency(m.Result)
			return nil
		},
	}}
}
