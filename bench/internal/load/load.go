// Package load is the harness's load generator. A closed loop saturates the target. An
// open loop has a constant rate, and measures latency from the time at which a request
// was due, so that a stall affects the latency of every request that it delays (no
// coordinated omission).
//
// The generator is a separate process with a few threads, each with an event loop that
// allocates nothing per request. It reports its CPU time, and whether it was the
// bottleneck.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/queuegate/queuegate/bench/internal/child"
)

// Command is the command-line argument with which the harness runs Main.
const Command = "load"

// Kinds of load.
const (
	// HTTP sends HTTP/1.1 requests.
	HTTP = "http"
	// Idle sends one HTTP/1.1 request on each connection, and then keeps the connections
	// open.
	Idle = "idle"
	// Events receives server-sent events. Each event contains the time at which the
	// server sent it (package clock). Its latency is the time from then to its arrival.
	Events = "events"
	// WebSocket sends messages and waits for their echo.
	WebSocket = "websocket"
	// H2C sends HTTP/2 requests, each on a new stream.
	H2C = "h2c"
	// H2CStream sends messages on HTTP/2 streams that stay open, and waits for their
	// echo.
	H2CStream = "h2c-stream"
)

// Spec describes a load.
type Spec struct {
	Kind string `json:"kind"`
	// Host is an IPv4 address; "" = 127.0.0.1.
	Host string `json:"host"`
	Port int    `json:"port"`
	Path string `json:"path"`
	// Field is a header field of each HTTP/1.1 request, without CRLF; "" = none.
	Field string `json:"field"`
	// Body is the size of an upload or a message in bytes.
	Body        int64 `json:"body"`
	Connections int   `json:"connections"`
	// UnderWay limits the number of concurrent requests in a closed loop of kind HTTP, so
	// that some connections are idle. A new request uses the connection that has been
	// idle for the longest time. 0 = each connection always carries a request.
	UnderWay int `json:"under_way"`
	// GRPC makes HTTP/2 requests look like gRPC calls.
	GRPC bool `json:"grpc"`
	// Streams is the number of concurrent requests on an HTTP/2 connection.
	Streams int `json:"streams"`
	// Rate is the number of arrivals per second over all connections. 0 = closed loop.
	Rate float64 `json:"rate"`
	// NewConnections opens a new connection for each request.
	NewConnections bool `json:"fresh"`
	// Warmup is the duration of the load before the measurement.
	Warmup   time.Duration `json:"warmup"`
	Duration time.Duration `json:"duration"`
	// Overtaking is the tolerance of Result.Overtaken. The requests of a thread should
	// end in the order in which they were due. A request is overtaken if another request
	// of the thread, which was due later by more than this tolerance, ends first.
	// 0 = do not count.
	Overtaking time.Duration `json:"overtaking"`
	// Timeline enables Result.Timeline.
	Timeline bool `json:"timeline"`
	// Threads is the number of event loops, which share the connections. 0 = one per four
	// cores, but at least one.
	Threads int `json:"threads"`
}

// address parses Host. It returns the zero Addr if Host is not an IPv4 address.
func (s *Spec) address() netip.Addr {
	a, err := netip.ParseAddr(cmp.Or(s.Host, "127.0.0.1"))
	if err != nil || !a.Is4() {
		return netip.Addr{}
	}
	return a
}

func (s *Spec) check() error {
	switch {
	case !slices.Contains([]string{HTTP, Idle, Events, WebSocket, H2C, H2CStream}, s.Kind):
		return fmt.Errorf("load: kind is %q", s.Kind)
	case s.Port < 1 || s.Port > 65535:
		return fmt.Errorf("load: port is %d", s.Port)
	case s.Host != "" && !s.address().IsValid():
		return fmt.Errorf("load: host is %q, must be an IPv4 address", s.Host)
	case s.Connections < 1:
		return fmt.Errorf("load: connections is %d, must be at least 1", s.Connections)
	case s.Rate < 0 || s.Body < 0 || s.UnderWay < 0:
		return fmt.Errorf("load: rate is %v, body %d, requests under way %d: none may be negative", s.Rate, s.Body, s.UnderWay)
	case s.UnderWay > 0 && (s.Kind != HTTP || s.Rate > 0 || s.NewConnections):
		return fmt.Errorf("load: requests under way is %d, but only a closed loop of kind %q on connections that stay has a bound for it", s.UnderWay, HTTP)
	case s.GRPC && s.Kind != H2C:
		return fmt.Errorf("load: gRPC is for kind %q, not %q", H2C, s.Kind)
	case s.Duration <= 0:
		return fmt.Errorf("load: duration is %v, must be positive", s.Duration)
	case s.NewConnections && s.Kind != HTTP:
		return fmt.Errorf("load: fresh connections are for kind %q, not %q", HTTP, s.Kind)
	case len(s.Path) == 0 || s.Path[0] != '/' || len(s.Path) > 126:
		return fmt.Errorf("load: path is %q, must begin with a slash and have at most 126 bytes", s.Path)
	}
	s.UnderWay = min(s.UnderWay, s.Connections)
	s.Streams = max(s.Streams, 1)
	if s.Kind != H2C && s.Kind != H2CStream {
		s.Streams = 1
	}
	return nil
}

// TimelineStep is the duration that one element of Result.Timeline covers.
const TimelineStep = 100 * time.Millisecond

// Percentiles are the percentiles in Result.Quantiles, ascending.
var Percentiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100}

// Result is the result of a load. Durations are in nanoseconds.
type Result struct {
	// Requests counts the successes. Depending on Spec.Kind, a success is a complete
	// response with status 2xx, the echo of a message, or an event.
	Requests int64 `json:"requests"`
	// Window counts the successes that completed before the end of Spec.Duration. The
	// other successes completed later, while the generator waited for the last responses.
	Window int64 `json:"window"`
	// Rejected counts complete responses with a status other than 2xx, by status.
	Rejected map[int]int64 `json:"rejected,omitempty"`
	// Errors counts requests without a complete response, by reason.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Unfinished counts requests that had no complete response when the generator stopped
	// waiting. In Quantiles, the latency of such a request is the time since it was due.
	Unfinished int64 `json:"unfinished"`
	// Overtaken counts the overtaken requests; see Spec.Overtaking.
	Overtaken int64 `json:"overtaken"`
	// Timeline divides Spec.Duration into intervals of TimelineStep. Each element counts
	// the successes that completed in one interval.
	Timeline []int64 `json:"timeline,omitempty"`
	// BytesIn and BytesOut count bytes read from and written to the sockets.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// Elapsed is the time from the start to the last response.
	Elapsed time.Duration `json:"elapsed"`
	// CPU is the CPU time of the generator. Share is the CPU time of its busiest thread
	// divided by Elapsed.
	CPU   time.Duration `json:"cpu"`
	Share float64       `json:"share"`
	// SendDelay is the 99th percentile of the delay with which the generator sent
	// requests. It is 0 in a closed loop.
	SendDelay time.Duration `json:"late"`
	// Saturated is the reason not to trust the measurements; "" = they can be trusted.
	Saturated string `json:"saturated,omitempty"`
	// Quantiles are pairs of a percentile and a latency.
	Quantiles [][2]float64 `json:"quantiles,omitempty"`
	Count     int64        `json:"count"`
}

// Quantile returns the latency in nanoseconds at a percentile, which must be one of
// Percentiles. It returns 0 if the result has no latencies.
func (r *Result) Quantile(percentile float64) float64 {
	for _, q := range r.Quantiles {
		if q[0] == percentile {
			return q[1]
		}
	}
	return 0
}

// Failures counts requests that were rejected, truncated or not completed.
func (r *Result) Failures() int64 {
	n := r.Unfinished
	for _, c := range r.Rejected {
		n += c
	}
	for _, c := range r.Errors {
		n += c
	}
	return n
}

// A Process is a generator in a separate process.
type Process struct{ *child.Process }

// Start runs a generator, and returns after its warm-up.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	c, err := child.Start(ctx, Command, spec, &struct{}{})
	if err != nil {
		return nil, err
	}
	return &Process{Process: c}, nil
}

// Run runs the load, and returns after the last response.
func (p *Process) Run() (*Result, error) {
	if err := p.Send(struct{}{}); err != nil {
		return nil, err
	}
	result := new(Result)
	if err := p.Receive(result); err != nil {
		return nil, err
	}
	return result, nil
}

// Main is the main function of the generator's process. It reads a Spec and writes a
// Result.
func Main(in io.Reader, out io.Writer) error {
	pipe := child.NewPipe(in, out)
	var spec Spec
	if err := pipe.Receive(&spec); err != nil {
		return err
	}
	if err := spec.check(); err != nil {
		return err
	}
	threads := cmp.Or(spec.Threads, max(1, runtime.NumCPU()/4))
	threads = min(threads, spec.Connections, cmp.Or(spec.UnderWay, spec.Connections))
	// Each event loop occupies a processor even while it waits, and the thread that
	// serves the pipe needs one more. Requests allocate nothing, so no garbage is
	// collected.
	runtime.GOMAXPROCS(threads + 1)
	debug.SetGCPercent(-1)

	workers := make([]*worker, threads)
	begin, done := make(chan struct{}), make(chan error, threads)
	for i := range workers {
		w, err := newWorker(&spec, i, threads)
		if err != nil {
			return pipe.Fail(err)
		}
		workers[i] = w
		go w.serve(begin, done)
	}
	all := func() (err error) {
		for range workers {
			err = errors.Join(err, <-done)
		}
		return err
	}
	if err := all(); err != nil {
		return pipe.Fail(err)
	}
	if err := pipe.Send(struct{}{}); err != nil {
		return err
	}
	if err := pipe.Receive(&struct{}{}); err != nil {
		if errors.Is(err, child.ErrEnd) {
			return nil
		}
		return err
	}
	close(begin)
	if err := all(); err != nil {
		return pipe.Fail(err)
	}
	if err := pipe.Send(merge(&spec, workers)); err != nil {
		return err
	}
	return pipe.AwaitEnd() // the harness measures memory while the connections are open
}
