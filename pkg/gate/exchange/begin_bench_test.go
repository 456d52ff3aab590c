package exchange

import (
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

func BenchmarkBeginEnd(b *testing.B) {
	selector, err := ParseSelector("header:priority")
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []struct {
		name     string
		overload OverloadConfig
	}{{"plain", OverloadConfig{}}, {"priority", OverloadConfig{PriorityBy: selector}}} {
		b.Run(mode.name, func(b *testing.B) {
			g := &Gate{Config: Config{ConcurrencyLimit: 100, QueueCapacity: 1000, Overload: mode.overload}}
			if err := g.Init(); err != nil {
				b.Fatal(err)
			}
			x := NewBlocking(g, func() int64 { return 1 })
			x.Fields = fieldLines{"Priority", "7"}
			b.ReportAllocs()
			for b.Loop() {
				x.Arrived = time.Duration(1)
				x.Begin(1, nil, nil)
				if o := x.Admit(b.Context()); o != gate.Undecided {
					b.Fatal(o)
				}
				x.Forward()
				x.End(gate.Served)
			}
		})
	}
}
