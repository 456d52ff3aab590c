// Package beside measures what the gate adds to a server: the bare server and
// the one with the gate take turns within one run, so that a busy machine slows
// both down alike.
package beside

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// batch is how many requests are measured at once.
const batch = 5_000

// heapBallast is what the program holds meanwhile. With none of its own it would collect
// garbage most of the time.
const heapBallast = 64 << 20

// Run reports CPU time per request of bare, of gated and of what the latter adds,
// as the medians of batches; the least that gated took beyond the least of bare,
// which is what a machine that does nothing else would show; and the allocations
// that it adds. Each function is called with the number of requests to serve.
func Run(b *testing.B, bare, gated func(n int)) {
	b.Helper()
	held := make([]byte, heapBallast)
	defer runtime.KeepAlive(held)
	runtime.GC()
	var alone, with, added []float64
	for done := 0; done < b.N || len(added) < 3; done += batch {
		first, second := bare, gated
		if len(added)%2 == 1 {
			first, second = gated, bare
		}
		x, y := cost(first), cost(second)
		if len(added)%2 == 1 {
			x, y = y, x
		}
		alone, with, added = append(alone, x), append(with, y), append(added, y-x)
	}
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(median(alone), "bare-ns/request")
	b.ReportMetric(median(with), "gate-ns/request")
	b.ReportMetric(median(added), "added-ns/request")
	b.ReportMetric(with[0]-alone[0], "least-added-ns/request")
	b.ReportMetric(allocations(gated)-allocations(bare), "added-allocs/request")
}

// cost is the CPU time of this process per request in ns.
func cost(serve func(n int)) float64 {
	before := cpu()
	serve(batch)
	return float64(cpu()-before) / batch
}

func cpu() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

func allocations(serve func(n int)) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	serve(batch)
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / batch)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
