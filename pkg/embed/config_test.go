package embed

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, err := New(Config{
		ConcurrencyLimit: -1, QueueCapacity: 1 << 25, QueueMaxWait: -1, RequestTimeout: -2, DrainQuiet: -3,
		Uncounted: []string{"/fine", "bad", "/a?b"}, MetricsNames: "newest",
		TrustedSources: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("10.0.0.0/8")},
	})
	want := `ConcurrencyLimit -1: want 0 (unlimited) to 1048576
QueueCapacity 33554432: want 0 to 16777216
QueueMaxWait -1ns: want 0 or more
RequestTimeout -2ns: want 0 or more
DrainQuiet -3ns: want 0 or more
Uncounted "bad": want a path that begins with a slash and has no query
Uncounted "/a?b": want a path that begins with a slash and has no query
TrustedSources invalid Prefix: want a valid prefix, one of IPv4 as such
TrustedSources ::ffff:10.0.0.0/104: want a valid prefix, one of IPv4 as such
MetricsNames: metric names "newest": want current, legacy or both`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestThePodIsNamedAfterTheHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if text := page(g.Stats(), "Accept", "text/plain"); !strings.Contains(text, `destination_pod="`+name+`"`) {
		t.Errorf("no %s in %s", name, text)
	}
}
