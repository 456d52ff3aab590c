package browser

import (
	"testing"
	"time"
)

func TestThePageComesBackByItselfWhenTheGateHasStartedAnew(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port)
	b := openTab(t)
	b.open(g.page() + "/")
	burst(g, "/broken", 3)
	b.awaits("errors are listed", live+` && document.querySelector('#failures-note').textContent.startsWith('3 requests')`, nil)
	g.kill()
	b.awaits("the page says that the gate is gone", `document.querySelector('#state-word').textContent === 'no answer' &&
		!document.querySelector('#notice').hidden && document.querySelector('#announce').textContent.includes('does not answer')`, nil)
	b.screenshot("gone")
	g.again()
	b.awaits("the page is live again, with the figures of the new gate", live+` && document.querySelector('#notice').hidden &&
		document.querySelector('#failures-note').textContent === 'None since the start.'`, nil)
	// The browser itself reports connections that are refused.
	if got := b.complaints("network error: Failed to load resource"); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
}

func TestAnOpenPageShowsTheDrainAndDoesNotHoldItUp(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, "DRAIN_QUIET_SECONDS=3")
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page is live", live, nil)
	g.drain()
	b.awaits("the page says that the gate is draining", `document.querySelector('#state').dataset.state === 'draining' &&
		document.querySelector('#announce').textContent === 'The gate is draining.'`, nil)
	b.screenshot("draining")
	select {
	case <-g.exited:
	case <-time.After(patience):
		t.Fatal("the gate does not end while the page is open")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
