package exchange

import (
	"testing"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate/admission"
)

func TestMain(m *testing.M) { leak.Main(m) }

func wantCounts(t *testing.T, a *admission.Controller, inFlight, queued int) {
	t.Helper()
	if a.InFlight() != inFlight || a.QueueDepth() != queued {
		t.Fatalf("%d in flight, %d queued, want %d and %d", a.InFlight(), a.QueueDepth(), inFlight, queued)
	}
}

func wantDecision(t *testing.T, a *admission.Controller, w *admission.Waiter, want admission.Decision) {
	t.Helper()
	if got := a.Acquire(w); got != want {
		t.Fatalf("Acquire returned %d, want %d", got, want)
	}
}

func headerValue(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
