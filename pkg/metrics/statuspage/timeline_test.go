package statuspage

import (
	"fmt"
	"testing"
	"time"
)

func TestTheTimelineKeepsTheLast48ChangesOfEachContainer(t *testing.T) {
	now := time.Duration(0)
	line := NewTimeline([]string{"web", "sidecar"}, func() time.Duration { return now })
	line.Changed(1, Change{From: "unknown", To: "ready", Attempts: 1})
	for i := range 100 {
		now = time.Duration(i) * time.Millisecond
		line.Changed(0, Change{From: "ready", To: "failing", Cause: fmt.Sprint("status ", i), Attempts: 2})
	}
	line.Changed(2, Change{})
	line.Changed(-1, Change{})
	web, sidecar := line.changesOf(0), line.changesOf(1)
	if len(web) != 48 || web[0].Cause != "status 52" || web[47] != (changeJSON{At: 99, From: "ready", To: "failing", Cause: "status 99", Attempts: 2}) {
		t.Errorf("%d changes, from %+v to %+v", len(web), web[0], web[len(web)-1])
	}
	if len(sidecar) != 1 || sidecar[0].To != "ready" {
		t.Errorf("%+v", sidecar)
	}
	if line.version() != 101 {
		t.Errorf("version %d after 101 changes", line.version())
	}
	var none *Timeline
	none.Changed(0, Change{})
}
