package scenario

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// bodies are closed loops of downloads and uploads of growing size.
func bodies() []Scenario {
	sizes := []struct {
		name        string
		bytes       int64
		connections int
	}{
		{"100B", 100, 64}, {"1KB", 1e3, 64}, {"10KB", 1e4, 64}, {"100KB", 1e5, 16},
		{"1MB", 1e6, 8}, {"10MB", 1e7, 4}, {"100MB", 1e8, 4},
	}
	var all []Scenario
	for _, upload := range []bool{false, true} {
		for _, size := range sizes {
			name, verb := "download-", "GET"
			spec := load.Spec{Kind: load.HTTP, Path: fmt.Sprintf("/bytes/%d", size.bytes), Connections: size.connections}
			if upload {
				name, verb = "upload-", "POST"
				spec.Path, spec.Body = "/upload", size.bytes
			}
			s := Scenario{
				Name:        name + size.name,
				About:       fmt.Sprintf("closed loop, %s of %s, connections: %d", verb, size.name, size.connections),
				Groups:      []string{"sizes", "growth"},
				Extended:    size.bytes != 1e8,
				Connections: size.connections,
				Run: func(r *Run) error {
					if r.options.Quick {
						spec.Connections = 2
					}
					return runBody(r, spec)
				},
			}
			if size.bytes == 1e8 {
				s.Extra = time.Second // the last ones are under way at the end
			}
			all = append(all, s)
		}
	}
	return all
}

func runBody(r *Run, spec load.Spec) error {
	st, err := r.start(target.Options{})
	if err != nil {
		return err
	}
	defer st.stop()
	m, err := r.measure(st, spec)
	if err != nil {
		return err
	}
	r.costs(m)
	gigabytes := float64(m.BytesIn+m.BytesOut) / 1e9
	if !r.isDirect() {
		r.figure("cpu_per_gb", m.cpu.Seconds()/gigabytes, "s/GB", sample.Lower)
	}
	r.figure("throughput", gigabytes/m.Elapsed.Seconds(), "GB/s", sample.Higher)
	r.throughput(m, r.options.Duration)
	r.latency(m.Result)
	return nil
}
