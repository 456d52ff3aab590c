// Package beside measures the overhead of the gate in a server. One run alternates
// between two servers, of which only one has the gate. Other load on the machine
// therefore affects both equally.
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

// heapBallast is the size in bytes of an unused allocation that exists during the
// measurement. With a nearly empty heap the garbage collector would run most of the time.
const heapBallast = 64 << 20

// Run compares two servers. The function bare serves n requests without the gate, and the
// function gated serves n requests with it.
//
// Run reports three medians over all batches: the CPU time per request of each server,
// and the difference of the two. It also reports the difference between the fastest
// batches of the two servers, and how many more allocations a request needs with the
// gate.
func Run(b *testing.B, bare, gated func(n int)) {
	b.Helper()
	ballast := make([]byte, heapBallast)
	defer runtime.KeepAlive(ballast)
	runtime.GC()
	var bareCosts, gatedCosts, addedCosts []float64
	for done := 0; done < b.N || len(addedCosts) < 3; done += batch {
		first, second := bare, gated
		if len(addedCosts)%2 == 1 {
			first, second = gated, bare
		}
		x, y := cost(first), cost(second)
		if len(addedCosts)%2 == 1 {
			x, y = y, x
		}
		bareCosts, gatedCosts, addedCosts = append(bareCosts, x), append(gatedCosts, y), append(addedCosts, y-x)
	}
	b.ReportMetric(0, "ns/op") // hide the default metric, which adds up both servers
	b.ReportMetric(median(bareCosts), "bare-ns/request")
	b.ReportMetric(median(gatedCosts), "gate-ns/request")
	b.ReportMetric(median(addedCosts), "added-ns/request")
	b.ReportMetric(gatedCosts[0]-bareCosts[0], "least-added-ns/request")
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
