package server

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestTheServerConfigurationIsValidated(t *testing.T) {
	to := func(s string) upstream.Config { return upstream.Config{Address: netip.MustParseAddrPort(s)} }
	g := &exchange.Gate{Config: exchange.Config{}}
	if err := g.Init(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Upstream: to("127.0.0.1:80")}, "event loops 0"},
		{Config{Loops: 1}, "upstream"},
		{Config{Loops: 1, Upstream: to("127.0.0.1:0")}, "127.0.0.1:0"},
	} {
		if s, err := NewServer(g, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
			if s != nil {
				s.Close()
			}
		}
	}
}

// The cases are the examples of docs/descriptors.md.
func TestEachLoopsShareOfUpstreamConnectionsMatchesTheDocs(t *testing.T) {
	for _, c := range []struct{ limit, loops, share, others int }{{64, 1, 4, 27}, {256, 1, 28, 195}, {64, 4, 2, 8}, {1 << 20, 4, 64, 1<<20 - 28 - 4*69}} {
		d := exchange.NewDescriptors(c.limit - 28)
		share := upstreamShare(d, c.loops)
		if others := d.Budget() - c.loops*(loopDescriptors+share); share != c.share || others != c.others {
			t.Errorf("limit %d with %d loops: %d and %d others, want %d and %d", c.limit, c.loops, share, others, c.share, c.others)
		}
	}
}
