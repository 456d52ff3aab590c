package report

import (
	"math"
	"slices"
	"testing"

	"github.com/queuegate/queuegate/bench/internal/sample"
)

func TestNumbersHaveThreeSignificantDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {8.123, "8.12"}, {9.999, "10.0"}, {99.94, "99.9"}, {99.96, "100"}, {999.4, "999"}, {999.6, "1,000"},
		{1234567, "1,234,567"}, {-1234.5, "-1,234"}, {0.85, "0.850"}, {0.05, "0.0500"}, {0.9996, "1.00"}, {0.00012, "0.00012"},
		{math.NaN(), "–"},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
}

func TestValuesAreShownInASuitableUnit(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{8.1, "us", "8.10 µs"}, {1500, "us", "1.50 ms"}, {0.0000021, "s", "2.10 µs"}, {0.5, "ns", "0.500 ns"},
		{14 << 20, "bytes", "14.0 MiB"}, {512, "B", "512 B"}, {3, "requests/s", "3.00 requests/s"}, {2, "", "2.00"}, {0, "ms", "0 ms"},
	} {
		if got := withUnit(c.v, unitOf(c.unit)); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestTheLabelOfAFigureIsItsNameInWords(t *testing.T) {
	for name, want := range map[string]string{
		"cpu_per_request": "CPU per request", "rss": "RSS", "throughput": "Throughput", "p99_added": "p99 added", "private_memory": "Private memory",
	} {
		if got := label(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTicksAreRoundAndWithinTheAxis(t *testing.T) {
	for _, a := range []axis{
		{low: 1, high: 1.4, log: true}, {low: 3, high: 40, log: true}, {low: 0.002, high: 900, log: true}, {low: 1e-3, high: 1e12, log: true},
		{low: 0, high: 9.2}, {low: 0, high: 13310}, {low: 0, high: 1e-6},
	} {
		ticks := a.ticks()
		if len(ticks) < 2 || len(ticks) > 12 {
			t.Errorf("%v to %v: ticks %v", a.low, a.high, ticks)
		}
		for _, v := range ticks {
			if v < a.low || v > a.high {
				t.Errorf("%v to %v: tick %v", a.low, a.high, v)
			}
		}
	}
}

func TestALogarithmicAxisGivesEqualRatiosEqualLengths(t *testing.T) {
	a := axis{from: 100, to: 0, low: 1, high: 100, log: true}
	for v, want := range map[float64]float64{1: 100, 10: 50, 100: 0} {
		if got := a.position(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", v, got, want)
		}
	}
}

func TestLabelsKeepAMinimumDistanceAndTheirOrder(t *testing.T) {
	for _, c := range []struct{ at, want []float64 }{
		{[]float64{10, 50}, []float64{10, 50}},
		{[]float64{50, 52, 49}, []float64{59, 69, 49}},
		{[]float64{99, 98, 97}, []float64{100, 90, 80}},
		{[]float64{1, 2}, []float64{1, 11}},
		{nil, nil},
	} {
		got := apart(c.at, 10, 0, 100)
		ordered := slices.Sorted(slices.Values(got))
		for i := 1; i < len(ordered); i++ {
			if ordered[i]-ordered[i-1] < 10 {
				t.Errorf("%v: %v are too close", c.at, got)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestTheExponentOfAPowerLawIsFound(t *testing.T) {
	sizes := []float64{1, 64, 1000, 10000}
	for _, e := range []float64{0, 0.5, 1, 2, -1} {
		values := make([]float64, len(sizes))
		for i, s := range sizes {
			values[i] = 3.7 * math.Pow(s, e)
		}
		if got := exponent(sizes, values); math.Abs(got-e) > 1e-9 {
			t.Errorf("exponent %v, want %v", got, e)
		}
	}
	// The decimal logarithms of x are 0, 1, 2, those of y are 0, 0, 3, so the slope is
	// 3/2.
	if got := exponent([]float64{1, 10, 100}, []float64{1, 1, 1000}); math.Abs(got-1.5) > 1e-9 {
		t.Errorf("exponent %v, want 1.5", got)
	}
	for e, want := range map[float64]string{-0.001: "0.00", -0.25: "−0.25", 1: "1.00"} {
		if got := exponentText(e); got != want {
			t.Errorf("%v: %q, want %q", e, got, want)
		}
	}
}

func TestAGrowthCurveIsDrawnOnlyForScenariosWithThreeSizes(t *testing.T) {
	run := &sample.Run{}
	for _, s := range []string{"keepalive-1", "keepalive-64", "keepalive-1000", "quota-100m", "open-2000", "body-1KB", "body-1MB"} {
		run.Figures = append(run.Figures,
			sample.Figure{Round: 1, Scenario: s, Target: "queuegate", Figure: "cpu_per_request", Value: 2, Unit: "us", Better: sample.Lower},
			sample.Figure{Round: 1, Scenario: s, Target: "queuegate", Figure: "throughput", Value: 2, Unit: "/s", Better: sample.Higher})
	}
	all := curves(run)
	if len(all) != 1 || all[0].family.Stem != "keepalive" || all[0].label != "CPU per request" {
		t.Fatalf("%+v", all)
	}
	if l := all[0].lines; len(l) != 1 || !slices.Equal(l[0].sizes, []float64{1, 64, 1000}) || l[0].exponent != 0 {
		t.Errorf("%+v", l)
	}
}

func TestATargetHasTheSameColourInEachPicture(t *testing.T) {
	run := &sample.Run{}
	for _, target := range []string{"nginx", "queuegate", "haproxy", "direct", "envoy", "knative", "a", "b", "c"} {
		run.Figures = append(run.Figures, sample.Figure{Scenario: "s", Target: target, Figure: "f"})
	}
	p := paletteOf(run)
	if p["direct"] != 0 || p["queuegate"] != 1 {
		t.Errorf("direct %d, queuegate %d", p["direct"], p["queuegate"])
	}
	for target, series := range p {
		if series < 0 || series >= colours || series < 2 && target != "direct" && target != "queuegate" {
			t.Errorf("%s is series %d", target, series)
		}
	}
}

func TestNotesAreShownOnceWithTheirScenario(t *testing.T) {
	run := &sample.Run{
		Figures: []sample.Figure{{Scenario: "s", Target: "a", Figure: "f"}},
		Notes: []sample.Note{
			{Text: "all"}, {Target: "a", Scenario: "s", Text: "slow"}, {Target: "b", Scenario: "s", Text: "slow"}, {Target: "a", Scenario: "s", Text: "slow"},
			{Scenario: "s", Text: "odd"}, {Target: "c", Text: "skipped"}, {Target: "c", Scenario: "gone", Text: "no figures"}, {Scenario: "gone", Text: "empty"},
		},
	}
	if got, want := notesOf(run, "s"), []string{"a, b: slow", "odd"}; !slices.Equal(got, want) {
		t.Errorf("of the scenario %q, want %q", got, want)
	}
	want := []string{"all", "c: skipped", "gone, c: no figures", "gone: empty", "The 4 notes on single scenarios are in their sections below."}
	if got := generalNotes(run); !slices.Equal(got, want) {
		t.Errorf("general %q, want %q", got, want)
	}
}

func TestTheReadmeNamesVersionsByTheirNumbers(t *testing.T) {
	got := shortVersions(map[string]string{
		"go": "go1.26.8", "haproxy": "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "haproxy-tcp": "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
		"nginx": "nginx version: nginx/1.22.1", "queuegate": "queue development (commit unknown, go1.26.8 linux/amd64)", "other": "unnumbered",
	})
	if want := "go 1.26.8, haproxy and haproxy-tcp 2.6.12-1+deb12u4, nginx 1.22.1, other unnumbered"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOnlyCustomaryPercentilesHaveAColumn(t *testing.T) {
	run := &sample.Run{}
	run.AddLatency(sample.Latency{Round: 1, Scenario: "s", Target: "queuegate", Unit: "us",
		Quantiles: []sample.Quantile{{0, 1}, {25, 2}, {50, 3}, {90, 4}, {95, 5}, {99, 6}, {99.9, 7}, {99.99, 8}, {100, 9}}})
	var labels []string
	for _, c := range tableOf(run, "s").Columns {
		labels = append(labels, c.label)
	}
	if want := []string{"p50", "p90", "p99", "p99.9", "max"}; !slices.Equal(labels, want) {
		t.Errorf("columns %q, want %q", labels, want)
	}
	for _, c := range []struct {
		percentile float64
		drawn      bool
	}{{0, false}, {25, false}, {50, true}, {95, true}, {99.99, true}, {100, false}} {
		if got := inPicture(c.percentile); got != c.drawn {
			t.Errorf("percentile %v is drawn: %v", c.percentile, got)
		}
	}
}

func TestSmallRatiosKeepTwoDigits(t *testing.T) {
	for r, want := range map[float64]string{0: "0.00×", 0.0032: "0.0032×", 0.0351: "0.035×", 0.097: "0.10×", 0.454: "0.45×", 1: "1.00×", 12.34: "12.3×"} {
		if got := ratioText(r); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
}
