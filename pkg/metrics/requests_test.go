package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
)

func TestTheRouteTagIsDerivedFromTheTagAndDefaultRouteFields(t *testing.T) {
	var tags routeTags
	for _, c := range []struct {
		tag, defaultRoute string
		hasDefault        bool
		current, legacy   string
	}{
		{"", "", false, "kn:disabled", "DISABLED"},
		{"", "", true, "kn:default", "DEFAULT"},
		{"", "true", true, "kn:default", "DEFAULT"},
		{"", "false", true, "kn:default", "DEFAULT"},
		{"green", "true", true, "kn:undefined", "UNDEFINED"},
		{"green", "false", true, "green", "green"},
		{"green", "", false, "green", "green"},
		{"blue", "TRUE", true, "blue", "blue"},
		{"DISABLED", "false", true, "kn:other", "OTHER"},
		{"kn:default", "false", true, "kn:other", "OTHER"},
		{"gr\xffn", "false", true, "kn:other", "OTHER"},
		{strings.Repeat("x", 64), "false", true, "kn:other", "OTHER"},
	} {
		tag := tags.tagOf(&gate.Record{RouteTag: []byte(c.tag), DefaultRoute: []byte(c.defaultRoute), HasDefaultRoute: c.hasDefault})
		if got := tags.name(tag); got != c.current {
			t.Errorf("%q, %q: %s, want %s", c.tag, c.defaultRoute, got, c.current)
		}
		if got := tags.legacyName(tag); got != c.legacy {
			t.Errorf("%q, %q: %s, want %s", c.tag, c.defaultRoute, got, c.legacy)
		}
	}
}

func TestRouteTagsAreBounded(t *testing.T) {
	var tags routeTags
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("tag-%d", (i*7+g)%100)
				if got := tags.name(tags.tagOf(&gate.Record{RouteTag: []byte(name)})); got != name && got != "kn:other" {
					t.Errorf("%s became %s", name, got)
				}
			}
		})
	}
	all.Wait()
	if n := len(tags.names); n != 16 {
		t.Errorf("%d tags learnt, want 16", n)
	}
	for _, name := range tags.names {
		if got := tags.name(tags.tagOf(&gate.Record{RouteTag: []byte(name)})); got != name {
			t.Errorf("%s became %s", name, got)
		}
	}
}

func sample() *gate.Record {
	return &gate.Record{
		Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 200, Proxied: true,
		Arrived: time.Second, Admitted: time.Second + 30*time.Microsecond, Forwarded: time.Second + 100*time.Microsecond,
		Responded: time.Second + 2*time.Millisecond, Ended: time.Second + 3100*time.Microsecond,
		RequestBody: 100, ResponseBody: 2000,
	}
}

// took sets the total duration of x, half of it in the container.
func took(x *gate.Record, total time.Duration) *gate.Record {
	x.Ended = x.Arrived + total
	x.Forwarded = x.Ended - total/2
	return x
}

var untraced gate.TraceID

func TestObserveAllocatesNothing(t *testing.T) {
	r := NewRequests()
	x := sample()
	x.RouteTag, x.Method, x.Encrypted = []byte("green"), []byte("PATCH"), true
	observe := func() { r.Observe(x, untraced) }
	observe()
	if n := testing.AllocsPerRun(1000, observe); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// count adds up a histogram of all series.
func count(r *Requests, of func(*seriesReading) *reading) (n, sum uint64) {
	r.series.each(func(s *series) {
		seen := s.read()
		n += of(&seen).count
		sum += uint64(of(&seen).sum)
	})
	return n, sum
}

func TestInconsistentRecordsAreCountedWithoutDurations(t *testing.T) {
	r := NewRequests()
	for _, x := range []*gate.Record{
		{Status: -1}, {Status: 0}, {Status: 99}, {Status: 600}, {Status: 1 << 40}, {Protocol: "HTTP/7", Method: make([]byte, 1000)},
		{Forwarded: 9, Admitted: 9, Responded: 3, Arrived: 9, Ended: 1, RequestBody: -1, ResponseBody: -1},
	} {
		r.Observe(x, untraced)
	}
	n := uint64(0)
	r.series.each(func(s *series) {
		seen := s.read()
		if seen.server.count > 0 && s.key.codeText() != "other" || seen.server.sum != 0 || seen.client.sum != 0 {
			t.Errorf("%d of status %s, sums %d and %d", seen.server.count, s.key.codeText(), seen.server.sum, seen.client.sum)
		}
		n += seen.server.count
	})
	if n != 7 {
		t.Errorf("%d counted, want 7", n)
	}
}

func TestConcurrentRequestsOfNewSeriesAreAllCounted(t *testing.T) {
	r := NewRequests()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				x := sample()
				x.Status, x.Outcome = 200+i%40, gate.Outcome(i%2)
				x.RouteTag = []byte{byte('a' + (i+g)%3)}
				r.Observe(x, untraced)
			}
		})
	}
	all.Wait()
	total, _ := count(r, server)
	reached, _ := count(r, invocation)
	for name, n := range map[string]uint64{
		"by labels": total, "reached": reached, "by outcome": r.outcomes[0].Load() + r.outcomes[1].Load(), "proxied": r.proxied.Load(),
	} {
		if n != 16_000 {
			t.Errorf("%s: %d, want 16000", name, n)
		}
	}
	if n := r.series.count.Load(); n != 1+40*3 {
		t.Errorf("%d series, want 121", n)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	r := NewRequests()
	var all sync.WaitGroup
	n := atomic.Int64{}
	for g := range 4 {
		all.Go(func() {
			for i, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "BREW", "get", "OPTIONS"} {
				for code := 100; code < 620; code++ {
					x := sample()
					x.Status, x.Method, x.Encrypted = code, []byte(method), (g+i)%2 == 0
					x.RouteTag = fmt.Appendf(nil, "tag-%d", code%30)
					r.Observe(x, untraced)
					n.Inc()
				}
			}
		})
	}
	all.Wait()
	found, whole := 0, 0
	r.series.each(func(s *series) {
		found++
		if s.key != s.key.overflowKey() {
			whole++
		}
	})
	if whole != maxSeries || found > maxSeries+otherCode-firstCode+1 {
		t.Errorf("%d series, %d of them with all labels", found, whole)
	}
	if total, _ := count(r, server); total != uint64(n.Load()) {
		t.Errorf("%d of %d requests counted", total, n.Load())
	}
	page := asText(t, gather(t, pedantic(t, CollectorConfig{Names: Both, Requests: r})))
	if rest := `http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="599",kn_route_tag="kn:other",` +
		`network_protocol_name="",network_protocol_version="",otel_scope_name="` + otelHTTP + `",url_scheme=""} `; !strings.Contains(page, rest) {
		t.Errorf("no line %s", rest)
	}
}

func TestASeriesHasTheLabelsOfItsRequests(t *testing.T) {
	for _, c := range []struct {
		x                                       gate.Record
		method, code, scheme, version, routeTag string
	}{
		{gate.Record{Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 200}, "GET", "200", "http", "1.1", "kn:disabled"},
		{gate.Record{Method: []byte("HEAD"), Protocol: "HTTP/1.0", Status: 101, HasDefaultRoute: true}, "HEAD", "101", "http", "1.0", "kn:default"},
		{gate.Record{Method: []byte("POST"), Protocol: "HTTP/2.0", Status: 599, Encrypted: true}, "POST", "599", "https", "2.0", "kn:disabled"},
		{gate.Record{Method: []byte("PUT"), Protocol: "HTTP/1.0", Status: 600, Encrypted: true}, "PUT", "other", "https", "1.0", "kn:disabled"},
		{gate.Record{Method: []byte("DELETE"), Protocol: "HTTP/1.1", Status: 99, Encrypted: true}, "DELETE", "other", "https", "1.1", "kn:disabled"},
		{gate.Record{Method: []byte("CONNECT"), Protocol: "HTTP/2.0", Status: 405}, "CONNECT", "405", "http", "2.0", "kn:disabled"},
		{gate.Record{Method: []byte("OPTIONS"), RouteTag: []byte("a")}, "OPTIONS", "other", "http", "1.0", "a"},
		{gate.Record{Method: []byte("TRACE")}, "TRACE", "other", "http", "1.0", "kn:disabled"},
		{gate.Record{Method: []byte("PATCH")}, "PATCH", "other", "http", "1.0", "kn:disabled"},
		{gate.Record{Method: []byte("get")}, "_OTHER", "other", "http", "1.0", "kn:disabled"},
		{gate.Record{}, "_OTHER", "other", "http", "1.0", "kn:disabled"},
	} {
		var tags routeTags
		k := keyOf(&c.x, tags.tagOf(&c.x))
		protocol := protocols[k>>protocolShift]
		got := []string{k.method(), k.codeText(), protocol.scheme, protocol.version, tags.name(k.tag())}
		if want := []string{c.method, c.code, c.scheme, c.version, c.routeTag}; !slices.Equal(got, want) || protocol.name != "http" {
			t.Errorf("%q, %s: %q, want %q", c.x.Method, c.x.Protocol, got, want)
		}
	}
}

func TestTheClientDurationEndsWithTheResponseHead(t *testing.T) {
	for name, c := range map[string]struct {
		x                  gate.Record
		n, client, invoked uint64
	}{
		"answered":      {gate.Record{Arrived: 1, Forwarded: 11, Responded: 18, Ended: 31}, 1, 7, 20},
		"not answered":  {gate.Record{Arrived: 1, Forwarded: 11, Ended: 31, Outcome: gate.RequestTimeout}, 1, 20, 20},
		"never reached": {gate.Record{Arrived: 1, Ended: 31, Outcome: gate.QueueFull}, 0, 0, 0},
	} {
		r := NewRequests()
		r.Observe(&c.x, untraced)
		if n, sum := count(r, client); n != c.n || sum != c.client {
			t.Errorf("%s: %d of %d ns, want %d of %d", name, n, sum, c.n, c.client)
		}
		if n, sum := count(r, invocation); n != c.n || sum != c.invoked {
			t.Errorf("%s: invoked %d for %d ns, want %d for %d", name, n, sum, c.n, c.invoked)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		r, x := NewRequests(), sample()
		b.ReportAllocs()
		for b.Loop() {
			r.Observe(x, untraced)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		r := NewRequests()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			x := sample()
			for pb.Next() {
				r.Observe(x, untraced)
			}
		})
	})
}

// BenchmarkRequest measures the cost of counting one request. cpu-ns/op is the CPU time
// of the process.
func BenchmarkRequest(b *testing.B) {
	run := func(r *Requests, c *Counting, next func() bool) {
		x := sample()
		for at := time.Duration(0); next(); at += 10 * time.Microsecond {
			c.Begin(at, true)
			c.End(at+5*time.Microsecond, true)
			r.Observe(x, untraced)
		}
	}
	measure := func(b *testing.B, all func(*Requests, *Counting)) {
		r, c := NewRequests(), new(Counting)
		b.ReportAllocs()
		before := cpuTime(b)
		all(r, c)
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	}
	b.Run("alone", func(b *testing.B) {
		measure(b, func(r *Requests, c *Counting) { run(r, c, b.Loop) })
	})
	b.Run("parallel", func(b *testing.B) {
		measure(b, func(r *Requests, c *Counting) {
			b.RunParallel(func(pb *testing.PB) { run(r, c, pb.Next) })
		})
	})
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
