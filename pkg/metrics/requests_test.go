package metrics

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRouteTagFollowsTheTwoFields(t *testing.T) {
	var tags RouteTags
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
		tag := tags.Tag([]byte(c.tag), []byte(c.defaultRoute), c.hasDefault)
		if got := tags.name(tag, &currentTagWords); got != c.current {
			t.Errorf("%q, %q: %s, want %s", c.tag, c.defaultRoute, got, c.current)
		}
		if got := tags.name(tag, &legacyTagWords); got != c.legacy {
			t.Errorf("%q, %q: %s, want %s", c.tag, c.defaultRoute, got, c.legacy)
		}
	}
}

func TestRouteTagsAreBoundedWhoeverSendsThem(t *testing.T) {
	var tags RouteTags
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("tag-%d", (i*7+g)%100)
				tag := tags.Tag([]byte(name), nil, false)
				if got := tags.name(tag, &currentTagWords); got != name && got != "kn:other" {
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
		if got := tags.name(tags.Tag([]byte(name), nil, false), &currentTagWords); got != name {
			t.Errorf("%s became %s", name, got)
		}
	}
}

func sample() *Record {
	return &Record{
		Status: 200, Proxied: true, Reached: true,
		Queued: 30 * time.Microsecond, Upstream: 3 * time.Millisecond, Total: 3100 * time.Microsecond,
		RequestBytes: 100, ResponseBytes: 2000,
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	r := NewRequests([]string{"served"})
	tag := []byte("green")
	x := sample()
	observe := func() {
		x.Route = r.Tag(tag, nil, false)
		r.Observe(x)
	}
	observe()
	if n := testing.AllocsPerRun(1000, observe); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRecordsThatMakeNoSenseDoNoHarm(t *testing.T) {
	r := NewRequests([]string{"served"})
	for _, x := range []*Record{
		{Status: -1}, {Status: 0}, {Status: 99}, {Status: 600}, {Status: 1 << 40},
		{Outcome: 255}, {Route: 255}, {Route: TagOther},
		{Reached: true, Queued: -1, Upstream: -1, Total: -1, RequestBytes: -1, ResponseBytes: -1},
	} {
		r.Observe(x)
	}
	p := page{}
	p.gather(r)
	count := uint64(0)
	for _, s := range p.total {
		if s.count > 0 && s.code != otherCode || s.sum != 0 {
			t.Errorf("%d of status %d, sum %d", s.count, s.code, s.sum)
		}
		count += s.count
	}
	if count != 9 {
		t.Errorf("%d counted, want 9", count)
	}
}

func TestConcurrentRecordsOfNewSeriesAllCount(t *testing.T) {
	r := NewRequests([]string{"served", "queue-full"})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				x := sample()
				x.Status, x.Outcome = 200+i%400, uint8(i%2)
				x.Route = r.Tag([]byte{byte('a' + (i+g)%16)}, nil, false)
				r.Observe(x)
			}
		})
	}
	all.Wait()
	p := page{}
	p.gather(r)
	count := func(all []series) (n uint64) {
		for _, s := range all {
			n += s.count
		}
		return n
	}
	for name, n := range map[string]uint64{
		"by tag and code": count(p.total), "reached": count(p.container),
		"by outcome": r.outcomes[0].Load() + r.outcomes[1].Load(), "proxied": r.proxied.Load(),
	} {
		if n != 16_000 {
			t.Errorf("%s: %d, want 16000", name, n)
		}
	}
	if len(p.container) != 400 {
		t.Errorf("%d statuses, want 400", len(p.container))
	}
}

func BenchmarkObserve(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		r, x := NewRequests([]string{"served"}), sample()
		b.ReportAllocs()
		for b.Loop() {
			r.Observe(x)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		r := NewRequests([]string{"served"})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			x := sample()
			for pb.Next() {
				r.Observe(x)
			}
		})
	})
}

// BenchmarkRequest is all that one request costs in counting. cpu-ns/op is the
// process's CPU time, which other processes disturb less than the clock.
func BenchmarkRequest(b *testing.B) {
	run := func(r *Requests, c *Counting, next func() bool) {
		x := sample()
		for at := time.Duration(0); next(); at += 10 * time.Microsecond {
			x.Route = r.Tag(nil, nil, false)
			c.Begin(at, true)
			c.End(at+5*time.Microsecond, true)
			r.Observe(x)
		}
	}
	measure := func(b *testing.B, all func(*Requests, *Counting)) {
		r, c := NewRequests([]string{"served"}), new(Counting)
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
