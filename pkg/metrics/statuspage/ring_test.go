package statuspage

import (
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
)

func TestRejectionsDuringAReadOfTheTotalsNeverCountAsDurations(t *testing.T) {
	const served = 1000
	src := Sources{Counting: new(metrics.Counting), Requests: metrics.NewRequests()}
	for range served {
		src.Requests.Observe(&gate.Record{Status: 200, Forwarded: 1, Ended: time.Microsecond}, gate.TraceID{})
	}
	var refusing sync.WaitGroup
	refusing.Go(func() {
		for range 50_000 {
			src.Requests.Observe(&gate.Record{Status: 503, Outcome: gate.QueueFull, Ended: time.Microsecond}, gate.TraceID{})
		}
	})
	r := newRing(0)
	got := uint64(0)
	second := func(n int64) {
		r.next(n)
		r.credit(&src)
		got += uint64(completed(*r.at(n)))
	}
	for n := range int64(100) {
		second(n)
	}
	refusing.Wait()
	second(100)
	if got != served {
		t.Errorf("%d durations of %d requests that were served", got, served)
	}
}
