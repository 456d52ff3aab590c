package app

import (
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
)

func TestCountingARequestForTheStatusPageAllocatesNothing(t *testing.T) {
	seen := newCounts()
	s := &status{errors: statuspage.NewErrors()}
	s.history = statuspage.NewHistory(statuspage.Sources{
		Clock: func() time.Duration { return 0 }, Counting: seen.counting, Requests: seen.requests, Errors: s.errors,
	})
	defer s.history.Close()
	x := gate.Record{Status: 503, Outcome: gate.QueueFull, Method: []byte("GET"), Target: []byte("/a?b")}
	s.requestBegan()
	s.requestEnded(&x)
	if n := testing.AllocsPerRun(1000, func() { x.Ended += time.Second; s.requestBegan(); s.requestEnded(&x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var off *status
	off.requestBegan()
	off.requestEnded(&x)
	off.rejected(gate.BadRequest)
}

func TestWithoutAStatusPortThereIsNoStatus(t *testing.T) {
	cfg := load(t, nil, map[string]string{"STATUS_PORT": "0"})
	if s := newStatus(cfg, nil, nil, counts{}); s != nil {
		t.Error("newStatus returned a status")
	}
}
