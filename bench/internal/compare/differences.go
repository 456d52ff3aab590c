package compare

import (
	"fmt"
	"maps"
	"slices"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

// differences tells, a line each, in what the circumstances of two runs differ.
func differences(old, new sample.Meta) []string {
	var lines []string
	say := func(what, a, b string) {
		if a != b {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", what, orNone(a), orNone(b)))
		}
	}
	a, b := old.Machine, new.Machine
	say("cpu", a.CPU, b.CPU)
	say("cores", fmt.Sprint(a.Cores), fmt.Sprint(b.Cores))
	say("memory in bytes", fmt.Sprint(a.MemoryBytes), fmt.Sprint(b.MemoryBytes))
	say("kernel", a.Kernel, b.Kernel)
	say("os", a.OS, b.OS)
	say("commit", old.Commit, new.Commit)
	for _, name := range bothKeys(old.Versions, new.Versions) {
		say("version of "+name, old.Versions[name], new.Versions[name])
	}
	for _, name := range bothKeys(old.Options, new.Options) {
		say("option "+name, old.Options[name], new.Options[name])
	}
	return lines
}

func bothKeys(a, b map[string]string) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
