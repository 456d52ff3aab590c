// Package beside measures the overhead of the gate in a server. One run alternates
// between the server without and with the gate, so that other load on the machine
// affects both equally.
package beside

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// batch is the number of requests per measurement.
const batch = 5_000

// heapBallast is allocated during the measurement, in bytes. With a nearly empty heap
// the garbage collector would run most of the time.
const heapBallast = 64 << 20

// Run reports the CPU time per request of bare and gated, and their difference, as
// medians over batches. It also reports the difference of the minimums, and the
// additional allocations per request. bare and gated serve n requests.
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
	b.ReportMetric(0, "ns/op") // hide the default metric, the sum of bare and gated
	b.ReportMetric(median(alone), "bare-ns/request")
	b.ReportMetric(median(with), "gate-ns/request")
	b.ReportMetric(median(added), "added-ns/request")
	b.ReportMetric(with[0]-alone[0], "least-added-ns/request")
	b.ReportMetric(allocations(gated)-allocations(bare), "added-allocs/request")
}

// cost returns the CPU time of this process per request in ns.
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
