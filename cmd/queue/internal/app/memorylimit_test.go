package app

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryLimitIsTheLeastOfAllGroups(t *testing.T) {
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
