package wire

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func headOf(t *testing.T, fields ...string) *h2.Head {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	d, h := h2.Decoder{MaxList: 64 << 10}, new(h2.Head)
	if err := d.Decode(block.Bytes(), h); err != nil {
		t.Fatal(err)
	}
	if err := h.CheckRequest(); err != nil {
		t.Fatal(err)
	}
	return h
}

// The text and the fields take one allocation each.
func TestAnHTTP2HeadAllocatesOnlyWhatItNeeds(t *testing.T) {
	for name, h := range map[string]*h2.Head{
		"short": headOf(t, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h"),
		"usual": headOf(t, ":method", "POST", ":scheme", "https", ":path", "/some/path?with=query", ":authority", "app.example.com",
			"user-agent", "client/1.0", "accept", "*/*", "content-type", "application/json", "x-forwarded-for", "10.1.2.3", "x-request-id", "0123456789"),
		"no authority":   headOf(t, ":method", "GET", ":scheme", "http", ":path", "/", "host", "h", "cookie", "a=1", "cookie", "b=2"),
		"a long method":  headOf(t, ":method", "PROPPATCHANDMUCHMORE", ":scheme", "http", ":path", "/", ":authority", "h"),
		"fields of none": headOf(t, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h", "a", "", "b", "", "c", ""),
	} {
		var r Request
		if n := testing.AllocsPerRun(10, func() {
			r = Request{}
			if err := r.ReadHTTP2(h, true); err != nil {
				t.Fatal(err)
			}
		}); n != 2 {
			t.Errorf("%s: %v allocations for a head, want 2", name, n)
		}
		if most := len(r.text) + 48; cap(r.text) > most+most/4 || cap(r.Fields) > len(r.Fields)+2 {
			t.Errorf("%s: room for %d bytes of text, %d needed; for %d fields, %d needed", name, cap(r.text), len(r.text), cap(r.Fields), len(r.Fields))
		}
	}
}

// TestRareFieldsAreResetBetweenRequests checks that rareFields are reused without their
// content.
func TestRareFieldsAreResetBetweenRequests(t *testing.T) {
	pseudo := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h"}
	var r Request
	if err := r.ReadHTTP2(headOf(t, append(pseudo, "k-network-probe", "queue", "k-network-hash", "x", "traceparent", "p",
		"knative-serving-tag", "blue", "knative-serving-default-route", "false")...), true); err != nil {
		t.Fatal(err)
	}
	if p := r.Probe(); string(p.NetworkProbe) != "queue" || string(p.NetworkHash) != "x" || !r.traced {
		t.Errorf("the first request: %q, traced %v", p, r.traced)
	}
	kept := r.rare
	if err := r.ReadHTTP2(headOf(t, append(pseudo, "tracestate", "s")...), true); err != nil {
		t.Fatal(err)
	}
	p, m := r.Probe(), r.rare
	if p.NetworkProbe != nil || p.NetworkHash != nil || m.routeTag != nil || m.defaultRoute != nil || m.hasDefaultRoute || m.trace.Traceparent != nil {
		t.Errorf("left of it: %q, %+v", p, m)
	}
	if m != kept || string(m.trace.Tracestate) != "s" {
		t.Errorf("the second request: %+v", m)
	}
}
