package scenario

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/queuegate/queuegate/bench/internal/cgroup"
	"github.com/queuegate/queuegate/bench/internal/load"
	"github.com/queuegate/queuegate/bench/internal/sample"
	"github.com/queuegate/queuegate/bench/internal/target"
)

// perConnection is the additional duration of a scenario per connection.
const perConnection = 100 * time.Microsecond

// keepAlive saturates the target with small GETs on persistent connections.
func keepAlive() (all []Scenario) {
	for _, n := range []int{1, 16, 64, 256, 1000, 4000, 10000} {
		all = append(all, Scenario{
			Name:   fmt.Sprintf("keepalive-%d", n),
			About:  fmt.Sprintf("closed loop, keep-alive GET of 12 bytes, connections: %d", n),
			Groups: []string{"keepalive", "growth"},
			// The other sizes are for the growth curve.
			Extended: !slices.Contains([]int{1, 64, 1000, 10000}, n),
			Extra:    time.Duration(n) * perConnection,
			Load:     load.Spec{Kind: load.HTTP, Path: "/", Connections: n},
		})
	}
	return all
}

// openConnections is keepAlive with few concurrent requests, which rotate over all
// connections. It separates the cost of an open connection from the cost of a request in
// flight.
func openConnections() (all []Scenario) {
	const underWay = 64
	for _, n := range []int{64, 256, 1000, 4000, 10000} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("open-connections-%d", n),
			About: fmt.Sprintf("closed loop, keep-alive GET of 12 bytes, concurrent requests: %d, rotating over all connections; connections: %d",
				underWay, n),
			Groups:   []string{"open-connections", "growth"},
			Extended: n != 10000,
			Extra:    time.Duration(n) * perConnection,
			Load:     load.Spec{Kind: load.HTTP, Path: "/", Connections: n, UnderWay: underWay},
		})
	}
	return all
}

// queued measures how the cost of a queued request depends on the length of the queue.
// Each scenario runs a closed loop with n connections more than the concurrency limit, so
// about n requests are queued at any time.
func queued() (all []Scenario) {
	const limit = 8
	for _, n := range []int{16, 128, 1000, 8000} {
		all = append(all, Scenario{
			Name:     fmt.Sprintf("queued-%d", n),
			About:    fmt.Sprintf("closed loop, keep-alive GET, concurrency limit %d, always queued: %d", limit, n),
			Groups:   []string{"queue", "growth"},
			Extended: true,
			Needs:    []string{target.Limit, target.HTTP},
			Extra:    time.Duration(n) * perConnection,
			Options:  target.Options{Limit: limit, QueueCapacity: n + limit},
			Load:     load.Spec{Kind: load.HTTP, Path: "/", Connections: n + limit},
		})
	}
	return all
}

var (
	// limited is keepAlive with a concurrency limit of half the number of connections, so
	// that half of the requests are queued.
	limited = Scenario{
		Name:    "keepalive-64-limit-32",
		About:   "closed loop, keep-alive GET, 64 connections, concurrency limit 32",
		Needs:   []string{target.Limit},
		Options: target.Options{Limit: 32},
		Load:    load.Spec{Kind: load.HTTP, Path: "/", Connections: 64},
	}

	// newConnection opens a new connection for each request.
	newConnection = Scenario{
		Name:  "new-connection",
		About: "closed loop, GET, a new connection for each request, 64 at once",
		Load:  load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, NewConnections: true},
	}

	// open has a constant rate far below saturation, to measure the latency that a proxy
	// adds.
	open = Scenario{
		Name:  "open-2000",
		About: "open loop, 2,000 GETs per second over 64 connections",
		Added: true,
		Load:  load.Spec{Kind: load.HTTP, Path: "/", Connections: 64, Rate: 2000},
	}

	// webSockets echoes small messages, one at a time on each connection.
	webSockets = Scenario{
		Name:  "websocket-64",
		About: "closed loop, WebSocket messages of 64 bytes, 64 connections",
		Needs: []string{target.WebSocket},
		Load:  load.Spec{Kind: load.WebSocket, Path: "/websocket", Body: 64, Connections: 64},
	}

	// chunks receives server-sent events, each in one chunk with the time of sending.
	chunks = Scenario{
		Name:    "chunk-delay",
		About:   "16 streams of server-sent events, one per 10 ms and stream; delay from origin to client",
		Added:   true,
		Load:    load.Spec{Kind: load.Events, Path: "/events?every=10ms", Connections: 16},
		Measure: (*Run).chunks,
	}
)

func (r *Run) chunks(st *stand, spec load.Spec) error {
	m, err := r.measure(st, spec)
	if err != nil {
		return err
	}
	if r.target.Started() {
		r.figure("cpu_per_event", m.microseconds(), "us", sample.Lower)
	}
	r.latency(m.Result)
	return nil
}

// h2c sends requests and messages over HTTP/2 without TLS. The origin's HTTP/2 server,
// net/http, costs more than some proxies, so compare the CPU of the targets and not the
// throughput.
func h2c() (all []Scenario) {
	add := func(name, about string, toHTTP1 bool, spec load.Spec) {
		s := Scenario{
			Name: "h2c-" + name, Groups: []string{"h2c"}, Needs: []string{target.H2C}, Extra: 200 * time.Millisecond,
			About:   fmt.Sprintf("closed loop, %s, connections × streams: %d × %d", about, spec.Connections, spec.Streams),
			Options: target.Options{H2Clients: true, H2C: !toHTTP1}, Load: spec,
		}
		if toHTTP1 {
			s.Needs = []string{target.H2CToHTTP1}
		}
		all = append(all, s)
	}
	add("unary", "h2c GET", false, load.Spec{Kind: load.H2C, Path: "/", Connections: 4, Streams: 16})
	add("stream", "messages of 100 bytes on open h2c streams", false,
		load.Spec{Kind: load.H2CStream, Path: "/echo", Body: 100, Connections: 4, Streams: 16})
	for _, shape := range [][2]int{{8, 8}, {64, 1}, {1, 64}} {
		spec := load.Spec{Kind: load.H2C, Path: "/", Connections: shape[0], Streams: shape[1]}
		size := fmt.Sprintf("%dx%d", shape[0], shape[1])
		add("to-http1-"+size, "GET, h2c to HTTP/1.1", true, spec)
		add("to-h2c-"+size, "GET, h2c to h2c", false, spec)
	}
	grpc := load.Spec{Kind: load.H2C, GRPC: true, Body: 105, Connections: 8, Streams: 8}
	grpc.Path = "/grpc/unary"
	add("grpc-unary", "gRPC unary calls: a message of 100 bytes each way", false, grpc)
	grpc.Path = "/grpc/stream"
	add("grpc-stream", "gRPC calls with a response of 100 messages of 100 bytes", false, grpc)
	return all
}

// bodies are closed loops of downloads and uploads.
func bodies() (all []Scenario) {
	sizes := []struct {
		name        string
		bytes       int64
		connections int
	}{
		{"100B", 100, 64}, {"1KB", 1e3, 64}, {"10KB", 1e4, 64}, {"100KB", 1e5, 16},
		{"1MB", 1e6, 8}, {"10MB", 1e7, 4}, {"100MB", 1e8, 4},
	}
	for _, upload := range []bool{false, true} {
		for _, size := range sizes {
			name, verb := "download-", "GET"
			spec := load.Spec{Kind: load.HTTP, Path: fmt.Sprintf("/bytes/%d", size.bytes), Connections: size.connections}
			if upload {
				name, verb = "upload-", "POST"
				spec.Path, spec.Body = "/upload", size.bytes
			}
			s := Scenario{
				Name:     name + size.name,
				About:    fmt.Sprintf("closed loop, %s of %s, connections: %d", verb, size.name, size.connections),
				Groups:   []string{"sizes", "growth"},
				Extended: size.bytes != 1e8,
				Load:     spec,
				Measure:  (*Run).body,
			}
			if size.bytes == 1e8 {
				s.Extra = time.Second // for requests still in progress when the load ends
			}
			all = append(all, s)
		}
	}
	return all
}

func (r *Run) body(st *stand, spec load.Spec) error {
	if r.options.Quick {
		spec.Connections = 2
	}
	m, err := r.measure(st, spec)
	if err != nil {
		return err
	}
	r.costs(m)
	gigabytes := float64(m.BytesIn+m.BytesOut) / 1e9
	if r.target.Started() {
		r.figure("cpu_per_gb", m.cpu.Seconds()/gigabytes, "s/GB", sample.Lower)
	}
	r.figure("throughput", gigabytes/m.Elapsed.Seconds(), "GB/s", sample.Higher)
	r.throughput(m, r.options.Duration)
	r.latency(m.Result)
	return nil
}

// quotas limits the CPU of the target as Kubernetes' resources.limits.cpu does. Direct
// has no quota.
func quotas() []Scenario {
	var all []Scenario
	for _, millis := range []int{100, 250} {
		all = append(all, Scenario{
			Name:    fmt.Sprintf("quota-%dm", millis),
			About:   fmt.Sprintf("open loop, 300 GETs per second over 16 connections, CPU quota %dm", millis),
			Groups:  []string{"quota"},
			Added:   true,
			Load:    load.Spec{Kind: load.HTTP, Path: "/", Connections: 16, Rate: 300},
			Measure: func(r *Run, st *stand, spec load.Spec) error { return runQuota(r, st, spec, millis) },
		})
	}
	return all
}

func runQuota(r *Run, st *stand, spec load.Spec, millis int) error {
	if r.target.IsPeer() {
		r.note("left out: the harness cannot limit the CPU of a peer")
		return nil
	}
	location, err := cgroup.Find()
	if err != nil {
		r.note("skipped: %v", err)
		return nil
	}
	if r.isDirect() {
		return r.plain(st, spec)
	}
	group, err := location.Create(fmt.Sprintf("queuegate-bench-%d", os.Getpid()), millis)
	if err != nil {
		return err
	}
	defer func() {
		st.instance.Stop() // processes must end before the group is removed
		r.record.keep(group.Remove())
	}()
	pids, err := st.instance.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := group.Add(pid); err != nil {
			return err
		}
	}
	// Read the counters before r.measure, which begins with the warm-up. So the recorded
	// difference includes throttling during the warm-up.
	before, err := group.Stat()
	if err != nil {
		return err
	}
	m, err := r.measure(st, spec)
	if err != nil && !errors.Is(err, errUntrusted) {
		return err
	}
	after, statErr := group.Stat()
	if statErr != nil {
		return statErr
	}
	felt := after.Sub(before)
	r.figure("throttled_periods", float64(felt.Throttled), "", sample.Lower)
	r.figure("throttled_time", float64(felt.ThrottledTime.Microseconds())/1e3, "ms", sample.Lower)
	if err != nil {
		return nil
	}
	r.costs(m)
	r.generator(m, true)
	r.latency(m.Result)
	return nil
}
