package requestlog

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate"
)

// TestMain fails if a log outlives its test.
func TestMain(m *testing.M) { leak.Main(m) }

type pairs [][2]string

func (p pairs) Each(yield func(name, value []byte) bool) {
	for _, f := range p {
		yield([]byte(f[0]), []byte(f[1]))
	}
}

var (
	testRevision = RevisionInfo{
		Name: "hello-00001", Namespace: "default", Service: "hello", Configuration: "hello-conf",
		PodName: "hello-00001-abc", PodIP: "10.1.2.3",
	}
	testHead = gate.Record{
		Method: []byte("POST"), Target: []byte("/a%20b/c?x=1&x=2&y=z"), Protocol: "HTTP/1.1",
		Host: []byte("hello.default.example.com"), Peer: netip.MustParseAddrPort("192.0.2.7:4321"),
		Fields: pairs{
			{"Host", "hello.default.example.com"},
			{"user-agent", "curl/8.1 (it's <\"odd\">)"},
			{"Referer", "https://example.com/?q=a&b=c"},
			{"Content-Length", "17"},
			{"X-Many", "one"}, {"x-many", "two"},
			{"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		},
	}
	testResult = Result{
		Status: 200, Outcome: "served", RequestBytes: 17, ResponseBytes: 1234,
		Ended:  time.Date(2026, 11, 21, 3, 0, 0, 135802789, time.UTC),
		Queued: 1500 * time.Microsecond, Upstream: 10846 * time.Microsecond, Total: 12346 * time.Microsecond,
		TraceID: gate.TraceID{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c},
	}
)

// rendered returns the line that a log with this template writes for a request.
func rendered(t testing.TB, template string, head gate.Record, result Result) string {
	t.Helper()
	var out bytes.Buffer
	l, err := New(Config{Template: template, Revision: testRevision, Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	l.Begin(&head).End(result)
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := l.Dropped(); n != 0 {
		t.Fatalf("%d lines dropped", n)
	}
	return out.String()
}
