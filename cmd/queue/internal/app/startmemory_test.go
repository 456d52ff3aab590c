package app

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsGivenBackInAQuietMoment(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that nothing else collects
	for _, c := range []struct{ busy, asked, collections int }{
		{busy: 0, asked: 1, collections: 1},
		{busy: 3, asked: 4, collections: 1},
		{busy: 1000, asked: startTries, collections: 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var before, after debug.GCStats
			debug.ReadGCStats(&before)
			asked := 0
			releaseStartMemory(func() bool { asked++; return asked <= c.busy })
			time.Sleep(time.Minute)
			synctest.Wait()
			debug.ReadGCStats(&after)
			if n := int(after.NumGC - before.NumGC); asked != c.asked || n != c.collections {
				t.Errorf("busy %d times: asked %d times, want %d; %d collections, want %d", c.busy, asked, c.asked, n, c.collections)
			}
		})
	}
}
