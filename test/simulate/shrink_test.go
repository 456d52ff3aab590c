package simulate

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// change overrides a setting of the seed.
type change struct {
	name  string
	value int64
}

type changes []change

// String formats c for CHANGES.
func (c changes) String() string {
	var parts []string
	for _, x := range c {
		parts = append(parts, fmt.Sprintf("%s=%d", x.name, x.value))
	}
	return strings.Join(parts, ",")
}

func parseChanges(text string) (c changes, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("CHANGES: %w", err)
		}
		c = append(c, change{name, n})
	}
	return c, nil
}

// weightNames are the fields of weights, in the order of the method switches.
var weightNames = func() (names []string) {
	for i := range reflect.TypeFor[weights]().NumField() {
		names = append(names, reflect.TypeFor[weights]().Field(i).Name)
	}
	return names
}()

// named are the settings, except weights, that shrink changes.
var named = []string{"clients", "requests", "loops", "bodies", "descriptors", "drainAt", "think", "gap", "concurrent", "held", "delay", "segment", "stingy", "partial", "shuffle", "live"}

func (r *run) values() map[string]int64 {
	v := map[string]int64{}
	for _, name := range append(named[:len(named):len(named)], weightNames...) {
		get, _ := r.setting(name)
		v[name] = get()
	}
	return v
}

// setting returns the accessors of a setting.
func (r *run) setting(name string) (get func() int64, set func(int64)) {
	s := r.settings
	intAccessors := func(p *int) (func() int64, func(int64)) {
		return func() int64 { return int64(*p) }, func(n int64) { *p = int(n) }
	}
	long := func(p *int64) (func() int64, func(int64)) {
		return func() int64 { return *p }, func(n int64) { *p = n }
	}
	flag := func(p *bool) (func() int64, func(int64)) {
		return func() int64 {
			if *p {
				return 1
			}
			return 0
		}, func(n int64) { *p = n != 0 }
	}
	switch name {
	case "clients":
		return intAccessors(&s.clients)
	case "requests":
		return intAccessors(&s.requests)
	case "loops":
		return intAccessors(&s.loops)
	case "bodies":
		return intAccessors(&s.bodies)
	case "descriptors":
		return intAccessors(&s.descriptors)
	case "drainAt":
		return long(&s.drainAt)
	case "think":
		return long(&s.think)
	case "gap":
		return long(&s.gap)
	case "concurrent":
		return long(&s.concurrent)
	case "held":
		return long(&r.kernel.maxDelay)
	case "delay":
		return long(&r.kernel.settings.delay)
	case "segment":
		return intAccessors(&r.kernel.settings.segment)
	case "stingy":
		return flag(&r.kernel.settings.stingy)
	case "partial":
		return flag(&r.kernel.partial)
	case "shuffle":
		return flag(&r.world.shuffle)
	case "live":
		return intAccessors(&r.live.changes)
	}
	for i, n := range weightNames {
		if n == name {
			p := s.w.switches()[i]
			return func() int64 {
				if *p > 0 {
					return 1
				}
				return 0
			}, func(int64) { *p = 0 }
		}
	}
	return nil, nil
}

func (r *run) apply(c changes) {
	for _, x := range c {
		if _, set := r.setting(x.name); set != nil {
			set(x.value)
		}
	}
}

var digits = regexp.MustCompile(`[0-9][0-9.µnms]*`)

// withoutNumbers removes the numbers from a finding, to compare findings of different runs.
func withoutNumbers(fault string) string {
	first, _, _ := strings.Cut(fault, "\n")
	return digits.ReplaceAllString(first, "N")
}

// shrinkTime limits the search for a smaller run.
const shrinkTime = 20 * time.Second

// shrink searches for a smaller run with the same finding: with fewer requests, smaller
// sizes, and fewer features.
func shrink(t *testing.T, failed *result) *result {
	best := simulate(failed.seed, true, nil)
	best.trace = nil
	deadline := time.Now().Add(shrinkTime)
	try := func(x change) bool {
		if time.Now().After(deadline) {
			return false
		}
		c := append(changes{}, best.changes...)
		for i := range c {
			if c[i].name == x.name {
				c = append(c[:i], c[i+1:]...)
				break
			}
		}
		res := simulate(failed.seed, false, append(c, x))
		if res.fault == "" || withoutNumbers(res.fault) != withoutNumbers(failed.fault) || res.requests > best.requests {
			return false
		}
		best = res
		return true
	}
	for improved := true; improved && time.Now().Before(deadline); {
		improved = false
		for _, name := range []string{"clients", "requests", "bodies"} {
			for {
				now, ok := best.now[name]
				if !ok || now <= 1 {
					break
				}
				if !try(change{name, now / 2}) && !try(change{name, now - 1}) {
					break
				}
				improved = true
			}
		}
		for _, name := range append([]string{"segment", "delay", "held", "partial", "stingy", "shuffle", "concurrent", "think", "gap", "drainAt"}, weightNames...) {
			if now := best.now[name]; now != 0 && try(change{name, 0}) {
				improved = true
			}
		}
		if best.now["loops"] > 1 && try(change{"loops", 1}) {
			improved = true
		}
	}
	return &best
}

// explain returns the trace of a run, and the command that repeats it.
func explain(t *testing.T, res *result) string {
	repeated := simulate(res.seed, true, res.changes)
	trace := repeated.trace
	const most = 120
	var b strings.Builder
	if len(trace) > most {
		fmt.Fprintf(&b, "… %d lines before\n", len(trace)-most)
		trace = trace[len(trace)-most:]
	}
	b.WriteString(strings.Join(trace, "\n"))
	fmt.Fprintf(&b, "\n\nshrunk to %d requests, drawn:", repeated.requests)
	for _, name := range append([]string{"clients", "requests", "loops", "bodies"}, weightNames...) {
		if n := repeated.now[name]; n != 0 {
			fmt.Fprintf(&b, " %s=%d", name, n)
		}
	}
	fmt.Fprintf(&b, "\nmake simulate SEED=%d CHANGES=%s", res.seed, res.changes)
	return b.String()
}

func outcomeNames(counts [64]int) string {
	var parts []string
	for i, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", gate.Outcome(i), n))
		}
	}
	return strings.Join(parts, ", ")
}
