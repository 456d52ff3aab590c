package metrics

import (
	"encoding/hex"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
)

// traced counts traced requests in the first bucket, in a middle bucket and in the last
// bucket.
func traced(r *Requests) {
	r.clock = func() time.Time { return time.Unix(1700000000, 500e6) }
	for i, total := range []time.Duration{40 * time.Microsecond, 80 * time.Millisecond, 90 * time.Millisecond, 200 * time.Second} {
		r.Observe(took(sample(), total), gate.TraceID{0: 0xab, 15: byte(i + 1)})
	}
	r.Observe(&gate.Record{Method: []byte("GET"), Protocol: "HTTP/1.1", Status: 503, Outcome: gate.QueueFull, Ended: time.Millisecond}, gate.TraceID{0xcd})
}

func TestExemplarsOnTheOpenMetricsPageAreTheGoldenOnes(t *testing.T) {
	cfg := fullConfig(Both)
	traced(cfg.Requests)
	all := gather(t, pedantic(t, cfg))
	var b strings.Builder
	for _, name := range []string{"http_server_request_duration_seconds", "kn_serving_invocation_duration_seconds", "revision_request_latencies"} {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&b, all[name]); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Golden(t, "exemplars.txt", b.String())
}

func TestEveryExemplarIsInTheBucketThatItsValueFallsInto(t *testing.T) {
	random := random(t)
	cfg := fullConfig(Both)
	for i := range 2000 {
		cfg.Requests.Observe(took(sample(), time.Duration(someDuration(random))), gate.TraceID{1, byte(i >> 8), byte(i)})
	}
	all := gather(t, pedantic(t, cfg))
	for name, least := range map[string]int{"http_server_request_duration_seconds": 20, "revision_request_latencies": 8} {
		found, below := 0, 0.0
		h := all[name].Metric[0].Histogram
		for _, bucket := range h.Bucket {
			if e := bucket.Exemplar; e != nil {
				found++
				if v := e.GetValue(); v > bucket.GetUpperBound() || v <= below && below > 0 {
					t.Errorf("%s: %v is in the bucket from %v to %v", name, v, below, bucket.GetUpperBound())
				}
			}
			below = bucket.GetUpperBound()
		}
		if found < least {
			t.Errorf("%s: %d exemplars, want %d", name, found, least)
		}
		if last := h.Bucket[len(h.Bucket)-1]; math.IsInf(last.GetUpperBound(), 1) && last.GetCumulativeCount() != h.GetSampleCount() {
			t.Errorf("%s: the last bucket is %v, of %d", name, last, h.GetSampleCount())
		}
	}
}

func TestTheLastTracedRequestIsTheExemplarOfItsBucket(t *testing.T) {
	h := newHistogram(durations)
	at := time.Unix(1, 0)
	h.trace(5_000_000, [16]byte{1}, at)
	h.trace(5_000_001, [16]byte{2}, at)
	h.trace(4_000_000, [16]byte{3}, at)
	h.trace(-1, [16]byte{4}, at)
	var got []byte
	for _, e := range h.exemplars() {
		got = append(got, e.trace[0])
	}
	if string(got) != "\x04\x03\x02" {
		t.Errorf("traces %v, want 4, 3, 2", got)
	}
}

func TestUntracedRequestsLeaveNoExemplar(t *testing.T) {
	cfg := fullConfig(Both)
	busy(&cfg)
	for name, f := range gather(t, pedantic(t, cfg)) {
		for _, m := range f.Metric {
			for _, bucket := range m.GetHistogram().GetBucket() {
				if bucket.Exemplar != nil {
					t.Errorf("%s has %v", name, bucket.Exemplar)
				}
			}
			if n := len(m.GetHistogram().GetExemplars()); n != 0 {
				t.Errorf("%s has %d native exemplars", name, n)
			}
		}
	}
}

func TestTracedRequestsAllocateOncePerHistogram(t *testing.T) {
	r, x := NewRequests(), sample()
	r.Observe(x, gate.TraceID{1})
	if n := testing.AllocsPerRun(1000, func() { r.Observe(x, gate.TraceID{1}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestScrapersThatAskForProtobufGetExemplarsOfBothKinds(t *testing.T) {
	cfg := fullConfig(Current)
	traced(cfg.Requests)
	response := ask(t, PageHandler(NewCollector(cfg), nil), "GET", "/metrics",
		http.Header{"Accept": {string(expfmt.NewFormat(expfmt.TypeProtoDelim))}})
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); err != nil {
			t.Fatal(err) // io.EOF: the page does not have the metric family
		}
		if f.GetName() != "http_server_request_duration_seconds" {
			continue
		}
		h := f.Metric[0].Histogram
		classic := 0
		for _, bucket := range h.Bucket {
			if bucket.Exemplar != nil {
				classic++
			}
		}
		if classic != 3 || len(h.Exemplars) != 3 {
			t.Errorf("%d classic exemplars, %d native ones, want 3 each", classic, len(h.Exemplars))
		}
		for _, e := range h.Exemplars {
			if e.Label[0].GetName() != "trace_id" || len(e.Label) != 1 || e.Timestamp.GetSeconds() != 1700000000 {
				t.Errorf("%v", e)
			}
			if id, err := hex.DecodeString(e.Label[0].GetValue()); err != nil || len(id) != 16 {
				t.Errorf("%v: %v", e, err)
			}
		}
		return
	}
}

func TestPagesCanBeRenderedWhileTracedRequestsAreCounted(t *testing.T) {
	cfg := fullConfig(Both)
	h := PageHandler(NewCollector(cfg), func(err error) { t.Error(err) })
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				cfg.Requests.Observe(took(sample(), time.Duration(i)*100*time.Microsecond), gate.TraceID{byte(g + 1), byte(i)})
			}
		})
	}
	for range 5 {
		if got := ask(t, h, "GET", "/metrics", http.Header{"Accept": {"application/openmetrics-text"}}).StatusCode; got != 200 {
			t.Errorf("status %d", got)
		}
	}
	all.Wait()
}

func BenchmarkObserveTraced(b *testing.B) {
	r, x := NewRequests(), sample()
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(x, gate.TraceID{1})
	}
}
