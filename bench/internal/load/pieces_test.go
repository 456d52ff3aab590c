package load

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

func TestArrivalsAreDueAtMultiplesOfTheInterval(t *testing.T) {
	p := pace{interval: 1e9 / 3, offset: 0.5, begin: 1000}
	for n := range 3000 {
		want := 1000 + int64((float64(n)+0.5)*1e9/3)
		if got := p.next(); got < want-1 || got > want+1 { // the difference is rounding
			t.Fatalf("arrival %d is due at %d, want %d", n, got, want)
		}
		p.count++
	}
}

func TestARingBufferKeepsItsOrderWhileItGrows(t *testing.T) {
	var r ring[int]
	next, want := 0, 0
	for range 500 {
		for range 3 {
			r.push(next)
			next++
		}
		for range 2 {
			if got := r.pop(); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
	}
	if r.len() != 500 {
		t.Fatalf("%d are left, want 500", r.len())
	}
}

func TestStatusesAreDecodedFromTheFirstFieldOfAResponse(t *testing.T) {
	for _, c := range []struct {
		name, block string
		want        int
	}{
		{"indexed", "\x88", 200},
		{"another one", "\x8d", 404},
		{"after a change of the table's size", "\x20\x88", 200},
		{"to be indexed", "\x48\x03503", 503},
		{"not indexed", "\x08\x03503", 503},
		{"never indexed", "\x18\x03429", 429},
		{"with Huffman coding", "\x48\x82\x64\x02", 302},
		{"with fields behind it", "\x88\x00\x01a\x01b", 200},
		{"nothing", "", 0},
		{"trailers", "\x00\x01a\x01b", 0},
		{"no number", "\x48\x035x3", 0},
	} {
		for cut := range max(1, len(c.block)) { // split the block at each offset, as CONTINUATION frames may
			hc := &h2conn{}
			hc.fields = hpack.NewDecoder(0, hc.field)
			first := hc.block([]byte(c.block[:cut]), false)
			status := hc.status
			err := errors.Join(first, hc.block([]byte(c.block[cut:]), true))
			if got := max(status, hc.status); got != c.want || err != nil {
				t.Errorf("%s, cut after %d bytes: %d, want %d (%v)", c.name, cut, got, c.want, err)
			}
		}
	}
}

func TestOnlyADataLineWithADecimalTimestampIsParsed(t *testing.T) {
	if stamp, ok := parseStamp([]byte("data: 1234567890123")); !ok || stamp != 1234567890123 {
		t.Fatalf("got %d, %v", stamp, ok)
	}
	for _, invalid := range []string{"", "data: ", "data: 12x", "event: 12", "data: " + strings.Repeat("9", 19)} {
		if stamp, ok := parseStamp([]byte(invalid)); ok {
			t.Errorf("%q was parsed as %d", invalid, stamp)
		}
	}
}

func TestAnInvalidSpecIsRejected(t *testing.T) {
	good := Spec{Kind: HTTP, Port: 80, Path: "/", Connections: 1, Duration: time.Second}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"an unknown kind":               func(s *Spec) { s.Kind = "x" },
		"no port":                       func(s *Spec) { s.Port = 0 },
		"no connection":                 func(s *Spec) { s.Connections = 0 },
		"a negative rate":               func(s *Spec) { s.Rate = -1 },
		"a negative body":               func(s *Spec) { s.Body = -1 },
		"a negative bound":              func(s *Spec) { s.UnderWay = -1 },
		"a bound for an open loop":      func(s *Spec) { s.UnderWay, s.Rate = 1, 10 },
		"a bound for h2c":               func(s *Spec) { s.Kind, s.UnderWay = H2C, 1 },
		"a bound for fresh connections": func(s *Spec) { s.NewConnections, s.UnderWay = true, 1 },
		"gRPC over HTTP/1":              func(s *Spec) { s.GRPC = true },
		"no duration":                   func(s *Spec) { s.Duration = 0 },
		"a path without a slash":        func(s *Spec) { s.Path = "x" },
		"a path too long for HTTP/2":    func(s *Spec) { s.Path = "/" + strings.Repeat("x", 200) },
		"fresh connections of h2c":      func(s *Spec) { s.Kind, s.NewConnections = H2C, true },
	} {
		s := good
		change(&s)
		if err := s.check(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestALoadGeneratorThatWasLateOrBusyReportsSaturation(t *testing.T) {
	spec := &Spec{}
	judged := func(cpu, late, latency time.Duration) string {
		w := &worker{tally: newTally()}
		w.tally.end, w.tally.CPU = int64(time.Second), cpu
		for range 100 {
			w.tally.recordLateness(int64(late))
			w.tally.received(0, int64(latency))
		}
		return merge(spec, []*worker{w}).Saturated
	}
	if reason := judged(500*time.Millisecond, 100*time.Microsecond, 200*time.Microsecond); reason != "" {
		t.Errorf("half a core and 100 µs: %s", reason)
	}
	if reason := judged(990*time.Millisecond, 0, time.Millisecond); !strings.Contains(reason, "core") {
		t.Errorf("a whole core: %q", reason)
	}
	if reason := judged(0, 5*time.Millisecond, 8*time.Millisecond); !strings.Contains(reason, "late") {
		t.Errorf("5 ms late: %q", reason)
	}
	if reason := judged(0, 5*time.Millisecond, 200*time.Millisecond); reason != "" {
		t.Errorf("5 ms late where requests take 200 ms: %q", reason)
	}
}
