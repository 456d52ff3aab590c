package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// messages records the messages of an exporter.
type messages struct{ bytes.Buffer }

func (m *messages) Send(_ context.Context, message []byte) ([]byte, error) {
	m.Write(message)
	return nil, nil
}

func (*messages) Timeout() time.Duration { return otlp.RequestTimeout }

func (*messages) Close() {}

// fixed returns the spans of a request with fixed ids.
func fixed(t *testing.T, c SpanContext, above gate.SpanID, x *gate.Record) []*SpanData {
	t.Helper()
	k := new(kept)
	tracer := newTracer(&Config{Epoch: epoch}, k)
	span := &Span{tracer: tracer, context: c, parentID: above, upstream: gate.SpanID{3, 0xff, 3}}
	span.End(x)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := k.spans()
	spans[1].SpanID = gate.SpanID{0, 2, 2} // the id of the wait span is random
	return spans
}

func TestTheFormatOfExportedSpansIsStable(t *testing.T) {
	long, short := gate.TraceID{0xfe, 1, 2, 3, 15: 4}, gate.TraceID{8: 0xab, 15: 1}
	spanContext := func(id gate.TraceID, state string) SpanContext {
		return SpanContext{TraceID: id, SpanID: gate.SpanID{1, 7: 1}, Flags: 1, Tracestate: readTracestate([]byte(state))}
	}
	missing := finished()
	missing.Status, missing.Peer, missing.Protocol = 404, netip.MustParseAddrPort("[2001:db8::1]:80"), "HTTP/2.0"
	missing.Method, missing.Target, missing.Host = []byte("P\xffST"), []byte("/<é>\xf0?x=y"), nil
	late := unanswered()
	late.Peer = netip.AddrPort{}
	late.Arrived += 1234567
	var batch []*SpanData
	batch = append(batch, fixed(t, spanContext(long, " a=b ,, c@d=  e f\t,*=x"), gate.SpanID{9}, finished())...)
	batch = append(batch, fixed(t, spanContext(long, " a=b ,, c@d=  e f\t,g-/*_=<\">"), gate.SpanID{9}, finished())...)
	batch = append(batch, fixed(t, spanContext(short, ""), gate.SpanID{}, refused())...)
	batch = append(batch, fixed(t, spanContext(short, "a=b,a=c"), gate.SpanID{7: 9}, missing)...)
	batch = append(batch, fixed(t, spanContext(long, ""), gate.SpanID{}, late)...)
	batch = append(batch, &SpanData{Name: "\xff of a program", Attributes: map[string]any{"yes": true, "half": 0.5, "other": "x"}})

	var page bytes.Buffer
	for _, of := range []struct {
		name     string
		exporter func(*messages) Exporter
		show     func([]byte) string
	}{
		{"zipkin", func(m *messages) Exporter { return &zipkinExporter{m, "shop"} }, func(b []byte) string {
			return string(bytes.ReplaceAll(b, []byte("},{\"traceId"), []byte("},\n{\"traceId")))
		}},
		{"stdout", func(m *messages) Exporter { return &lineExporter{m, "shop"} }, func(b []byte) string { return string(b) }},
		{"otlp, in hexadecimal", func(m *messages) Exporter { return newOTLPExporter(m, &someone) }, func(b []byte) string {
			var lines []byte
			for ; len(b) > 64; b = b[64:] {
				lines = append(hex.AppendEncode(lines, b[:64]), '\n')
			}
			return string(hex.AppendEncode(lines, b))
		}},
	} {
		var m messages
		if lost, err := of.exporter(&m).Export(t.Context(), batch); lost != 0 || err != nil {
			t.Fatalf("%s: %d lost, %v", of.name, lost, err)
		}
		page.WriteString("# " + of.name + "\n" + of.show(m.Bytes()) + "\n")
	}

	testkit.Golden(t, "wire.txt", page.String())
}
