package scenario

import (
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// h2c are requests and messages over HTTP/2 without TLS. The origin speaks it
// with net/http, which costs more than some proxies do: CPU is what to look at.
func h2c() []Scenario {
	scenario := func(name, about string, spec load.Spec) Scenario {
		return Scenario{
			Name: name, About: about, Groups: []string{"h2c"},
			Needs: []string{target.H2C}, Connections: spec.Connections,
			Run: func(r *Run) error {
				st, err := r.start(target.Options{H2C: true})
				if err != nil {
					return err
				}
				defer st.stop()
				return r.plain(st, spec)
			},
		}
	}
	s := []Scenario{
		scenario("h2c-unary", "closed loop, h2c GET, 4 connections with 16 streams each",
			load.Spec{Kind: load.H2C, Path: "/", Connections: 4, Streams: 16}),
		scenario("h2c-stream", "closed loop, messages of 100 bytes on open h2c streams, 4 connections with 16 streams each",
			load.Spec{Kind: load.H2CStream, Path: "/echo", Body: 100, Connections: 4, Streams: 16}),
	}
	for i := range s {
		s[i].Extra = 200 * time.Millisecond
	}
	return s
}
