package browser

import (
	"slices"
	"testing"
)

// timing is an entry of Server-Timing in Chromium.
type timing struct {
	Name     string
	Duration float64 // in milliseconds
}

// timings returns the Server-Timing entries of the page.
func (b *tab) timings() []timing {
	return evaluate[[]timing](b, `performance.getEntriesByType('navigation')[0].serverTiming.map((e) => ({ Name: e.name, Duration: e.duration }))`)
}

func TestChromiumReadsTheTimesOfARequestFromServerTiming(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, "SERVER_TIMING=true")
	b := openTab(t)
	b.open(g.url("/work?ms=2000"))
	got := b.timings()
	var names []string
	for _, e := range got {
		names = append(names, e.Name)
	}
	if want := []string{"queue", "connect", "upstream"}; !slices.Equal(names, want) {
		t.Fatalf("entries %v, want %q", got, want)
	}
	// The container needs 2 s. On a busy machine the gate may notice only later that it
	// has sent the request, so "upstream" may be shorter.
	if queue, connect, upstream := got[0].Duration, got[1].Duration, got[2].Duration; queue < 0 || connect < 0 || upstream < 30 {
		t.Errorf("entries %v", got)
	}
}

func TestChromiumGetsNoServerTimingByDefault(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port)
	b := openTab(t)
	b.open(g.url("/"))
	if got := b.timings(); len(got) != 0 {
		t.Errorf("entries %v", got)
	}
}
