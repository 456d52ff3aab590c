package app

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheMemoryLimitIsTheLowestOfAllControlGroups(t *testing.T) {
	for _, c := range []struct {
		sentence, groups string
		files            map[string]string
		want             int64
	}{
		{"version 2", "0::/pod/container\n", map[string]string{"pod/memory.max": "200\n", "pod/container/memory.max": "300\n"}, 200},
		{"none", "0::/pod\n", map[string]string{"pod/memory.max": "max\n"}, math.MaxInt64},
		{"version 1", "7:cpu,cpuacct:/a\n6:memory:/a/b\n0::/a\n", map[string]string{"memory/a/b/memory.limit_in_bytes": "100\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 100},
		{"a mount that begins at the group", "0::/a/b\n", map[string]string{"memory.max": "70\n"}, 70},
		{"no groups", "", map[string]string{}, math.MaxInt64},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			dir := t.TempDir()
			c.files["groups"] = c.groups
			for name, text := range c.files {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := memoryLimit(filepath.Join(dir, "groups"), dir); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestTheRuntimesLimitFollowsTheControlGroupUnlessTheUserSetsIt(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	dir := t.TempDir()
	groups := filepath.Join(dir, "groups")
	for name, text := range map[string]string{"groups": "0::/\n", "memory.max": "1073741824\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOMEMLIMIT", "2GiB")
	followMemoryLimit(groups, dir)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT: %d, want %d as before", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	followMemoryLimit(groups, dir)
	if got := debug.SetMemoryLimit(-1); got != 768<<20 {
		t.Errorf("got %d, want three quarters of 1 GiB", got)
	}
}

func TestGarbageIsBoundedUnlessTheUserSetsGOGC(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for gogc, want := range map[string]int{"80": 100, "": garbage} {
		t.Setenv("GOGC", gogc)
		boundGarbage()
		got := debug.SetGCPercent(100)
		if got != want {
			t.Errorf("GOGC=%q: the runtime has %d, want %d", gogc, got, want)
		}
	}
}

func BenchmarkMemoryLimit(b *testing.B) {
	for b.Loop() {
		memoryLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	}
}

func TestMemoryIsReleasedWhileNoRequestIsInProgress(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no other collections
	for _, c := range []struct{ busy, asked, collections int }{
		{busy: 0, asked: 1, collections: 1},
		{busy: 3, asked: 4, collections: 1},
		{busy: 1000, asked: startAttempts, collections: 0},
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
