package embed

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, err := New(Config{
		ConcurrencyLimit: -1, QueueCapacity: 1 << 25, QueueMaxWait: -1, RequestTimeout: -2, DrainQuiet: -3,
		Concurrency: "auto:9-3", QueueFairBy: "cookie:a", QueuePriorityBy: "peer", QueueDeadlineBy: "path:1", QueueRetryAfter: "2", QueueRefusalStatus: 500,
		Uncounted: []string{"/fine", "bad", "/a?b"}, MetricsNames: "newest",
		TrustedSources: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("10.0.0.0/8")},
	})
	want := `ConcurrencyLimit -1: want 0 (unlimited) to 1048576
QueueCapacity 33554432: want 0 to 16777216
QueueRefusalStatus 500: want 503 or 429
QueueMaxWait -1ns: want 0 or more
RequestTimeout -2ns: want 0 or more
DrainQuiet -3ns: want 0 or more
Concurrency "auto:9-3": want a whole number from 0 to 1048576, auto, or auto:MIN-MAX
QueueFairBy "cookie:a": want header:NAME, peer or path:N
QueuePriorityBy "peer": want header:NAME
QueueDeadlineBy "path:1": want header:NAME or header:NAME:ms
QueueRetryAfter "2": want 1 or measured
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

func TestConcurrencyAcceptsTheFormatOfTheSidecar(t *testing.T) {
	for text, want := range map[string]string{
		"": "7 limit, 3 queued", "0": "0 limit, 3 queued", "12": "12 limit, 3 queued", "auto:5-5": "5 limit, 3 queued",
		"-1": "error", "1048577": "error", "auto:": "error", "automatic": "error", "1e3": "error",
	} {
		c := Config{Concurrency: text, QueueCapacity: 3}
		if text == "" {
			c.ConcurrencyLimit = 7
		}
		got := "error"
		if g, err := New(c); err == nil {
			got = fmt.Sprintf("%d limit, %d queued", g.Limit(), g.state().Gate.Admission.Capacity())
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if _, err := New(Config{Concurrency: "5", ConcurrencyLimit: 4}); err == nil || !strings.Contains(err.Error(), "want one of Concurrency and ConcurrencyLimit") {
		t.Errorf("both: %v", err)
	}
	g, err := New(Config{Concurrency: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	if limit := g.Limit(); limit < 1 || limit > 1000 || g.state().Gate.Admission.Capacity() != 10*limit {
		t.Errorf("auto: limit %d, capacity %d", limit, g.state().Gate.Admission.Capacity())
	}
}
