package probe

import (
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/probe/check"
)

func TestAChangeOfStateIsPrintedAsASentence(t *testing.T) {
	for _, c := range []struct {
		change Change
		want   string
	}{
		{
			Change{From: Unknown, To: Down, Cause: check.Cause{Kind: check.CauseRefused}, After: 1400 * time.Microsecond, Attempts: 1},
			"app is down (first check): connection refused",
		},
		{Change{From: Unknown, To: Ready, After: 30 * time.Millisecond, Attempts: 3}, "app is ready (not known for 30ms, 3 checks)"},
		{Change{From: Down, To: Ready, After: 2340 * time.Millisecond, Attempts: 25}, "app is ready (was down for 2.34s, 25 checks)"},
		{
			Change{From: Ready, To: Down, Cause: check.Cause{Kind: check.CauseRefused}, After: time.Minute},
			"app is down (was ready for 1m0s, 0 checks): connection refused",
		},
	} {
		c.change.Container = "app"
		if got := c.change.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
