package app

import (
	"reflect"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics"
	"github.com/queuegate/queuegate/pkg/metrics/statuspage"
)

func TestFactsOfTheStatusPageHaveEverySettingInTheOrderOfTheTable(t *testing.T) {
	cfg := load(t, []string{"--user-port=81"}, map[string]string{"SERVING_POD": "web-1", "CONTAINER_CONCURRENCY": "2"})
	f := statusFacts(cfg, metrics.Build{Version: "v1"})
	var want []statuspage.Group
	for _, s := range cfg.Shown() {
		if len(want) == 0 || want[len(want)-1].Title != s.Group {
			want = append(want, statuspage.Group{Title: s.Group})
		}
		group := &want[len(want)-1]
		group.Settings = append(group.Settings, statuspage.Setting{Name: s.Name, Value: s.Value, Empty: s.Empty, Source: s.Source, Masked: s.Masked})
	}
	if !reflect.DeepEqual(f.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", f.Settings, want)
	}
	if f.Pod != "web-1" || f.Version != "v1" {
		t.Errorf("pod %q, version %q", f.Pod, f.Version)
	}
}

func TestFeedingTheStatusPageAllocatesNothing(t *testing.T) {
	seen := newCounts()
	s := &status{errors: statuspage.NewErrors()}
	s.history = statuspage.NewHistory(statuspage.Sources{
		Clock: func() time.Duration { return 0 }, Counting: seen.counting, Requests: seen.requests, Errors: s.errors,
	})
	defer s.history.Close()
	x := gate.Exchange{Status: 503, Outcome: gate.QueueFull, Method: []byte("GET"), Target: []byte("/a?b")}
	s.begun()
	s.ended(&x)
	if n := testing.AllocsPerRun(1000, func() { x.Ended += time.Second; s.begun(); s.ended(&x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var off *status
	off.begun()
	off.ended(&x)
	off.rejected(gate.BadRequest)
}

func TestWithoutAStatusPortThereIsNoStatus(t *testing.T) {
	cfg := load(t, nil, map[string]string{"STATUS_PORT": "0"})
	if s := newStatus(cfg, nil, nil, counts{}); s != nil {
		t.Error("there is one")
	}
}
