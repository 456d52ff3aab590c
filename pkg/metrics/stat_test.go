package metrics

import (
	"encoding/hex"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/queuegate/queuegate/internal/testkit"
)

// decodeStat decodes protobuf independently of the encoder. It rejects repeated fields
// and wrong wire types.
func decodeStat(b []byte) (s Stat, timestamp int64, err error) {
	varint := func() (v uint64) {
		for shift := 0; ; shift += 7 {
			if len(b) == 0 || shift > 63 {
				err = errors.New("bad varint")
				return 0
			}
			c := b[0]
			b = b[1:]
			v |= uint64(c&0x7f) << shift
			if c < 0x80 {
				return v
			}
		}
	}
	doubles := map[uint64]*float64{
		2: &s.AverageConcurrentRequests, 3: &s.AverageProxiedConcurrentRequests,
		4: &s.RequestCount, 5: &s.ProxiedRequestCount, 6: &s.ProcessUptime,
	}
	seen := map[uint64]bool{}
	for len(b) > 0 && err == nil {
		key := varint()
		field, wire := key>>3, key&7
		if seen[field] {
			return s, 0, errors.New("field twice")
		}
		seen[field] = true
		switch {
		case field == 1 && wire == 2:
			n := varint()
			if n > uint64(len(b)) {
				return s, 0, errors.New("short string")
			}
			s.PodName, b = string(b[:n]), b[n:]
		case doubles[field] != nil && wire == 1:
			if len(b) < 8 {
				return s, 0, errors.New("short double")
			}
			var bits uint64
			for i := 7; i >= 0; i-- {
				bits = bits<<8 | uint64(b[i])
			}
			*doubles[field], b = math.Float64frombits(bits), b[8:]
		case field == 7 && wire == 0:
			timestamp = int64(varint())
		default:
			return s, 0, errors.New("unexpected field or wire type")
		}
	}
	return s, timestamp, err
}

func TestStatMatchesItsProtobufDescription(t *testing.T) {
	s := Stat{"web-1", 7, 3, 10, 0, 1.5}
	want := "0a05" + hex.EncodeToString([]byte("web-1")) +
		"11" + "0000000000001c40" +
		"19" + "0000000000000840" +
		"21" + "0000000000002440" +
		"31" + "000000000000f83f"
	if got := hex.EncodeToString(s.AppendProto(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnIndependentDecoderParsesAStat(t *testing.T) {
	r := random(t)
	for range 2000 {
		value := func() float64 {
			return []float64{0, 1, 1.0 / 3, 1e9, math.MaxFloat64, r.Float64() * 1000}[r.IntN(6)]
		}
		want := Stat{strings.Repeat("p", r.IntN(maxPodNameBytes+1)), value(), value(), value(), value(), value()}
		b := want.AppendProto([]byte{})
		if len(b) > MaxStatBytes {
			t.Fatalf("%d bytes", len(b))
		}
		got, timestamp, err := decodeStat(b)
		if err != nil || timestamp != 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("%x: %+v, timestamp %d, %v; want %+v", b, got, timestamp, err, want)
		}
	}
}

func TestAnOverlongOrInvalidPodNameStillGivesAValidStat(t *testing.T) {
	for name, want := range map[string]int{
		strings.Repeat("x", 10_000):                  maxPodNameBytes,
		strings.Repeat("x", maxPodNameBytes-1) + "é": maxPodNameBytes - 1,
		strings.Repeat("é", 400):                     maxPodNameBytes - 1,
		"a\xffb":                                     2,
	} {
		s := Stat{name, 1, 1, 1, 1, 1}
		b := s.AppendProto(nil)
		got, _, err := decodeStat(b)
		if err != nil || len(b) > MaxStatBytes || len(got.PodName) != want || !utf8.ValidString(got.PodName) {
			t.Errorf("%.20q…: %d bytes, name of %d (want %d), %v", name, len(b), len(got.PodName), want, err)
		}
	}
}

func TestStatAsTextIsTheGoldenPage(t *testing.T) {
	s := Stat{"web-1", 7.25, 3, 1234.5, 10, 98.000000001}
	testkit.Golden(t, "stat.txt", string(s.AppendText(nil, Identity{Namespace: "shop", Configuration: "web", Revision: "web-00001", Pod: "web-1"})))
}

func TestLabelValuesOfTheTextFormAreEscaped(t *testing.T) {
	var s Stat
	text := string(s.AppendText(nil, Identity{Namespace: "a\"b\\c\nd\xff"}))
	if want := `{destination_namespace="a\"b\\c\nd` + "\uFFFD" + `",`; strings.Count(text, want) != len(statText) {
		t.Errorf("%q is not on each line of %q", want, text)
	}
}

func ask(t *testing.T, h http.Handler, method, path string, header http.Header) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, r *http.Response) string {
	t.Helper()
	var b strings.Builder
	if _, err := io.Copy(&b, r.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheAcceptHeaderChoosesBetweenProtobufAndText(t *testing.T) {
	var c Counting
	c.Begin(0, true)
	h := StatHandler(Identity{Pod: "web-1"}, &c, func() time.Duration { return 3 * time.Second })
	for accept, text := range map[string]bool{
		"":                     false,
		"*/*":                  false,
		"application/protobuf": false,
		"application/vnd.google.protobuf;q=0.7,text/plain;q=0.3": false,
		"application/json, text/plain":                           false,
		"text/html":                                              false,
		"text/plainer":                                           false,
		"text/plain":                                             true,
		"Text/Plain; version=0.0.4":                              true,
		" text/plain ;q=0.1, application/protobuf":               true,
		"application/openmetrics-text;version=1.0.0,text/plain":  true,
	} {
		header := http.Header{}
		if accept != "" {
			header.Set("Accept", accept)
		}
		response := ask(t, h, "GET", "/metrics", header)
		body, kind := read(t, response), response.Header.Get("Content-Type")
		if text {
			if kind != textContentType || !strings.Contains(body, `queue_average_concurrent_requests{destination_namespace="",destination_configuration="",destination_revision="",destination_pod="web-1"} 1`+"\n") {
				t.Errorf("Accept %q: %s\n%s", accept, kind, body)
			}
			continue
		}
		got, _, err := decodeStat([]byte(body))
		if want := (Stat{"web-1", 1, 1, 0, 0, 3}); err != nil || kind != statContentType || got != want {
			t.Errorf("Accept %q: %s, %+v, %v", accept, kind, got, err)
		}
	}
}

func TestPathsOtherThanMetricsAreNotFound(t *testing.T) {
	h := StatHandler(Identity{}, new(Counting), func() time.Duration { return 0 })
	for _, path := range []string{"/", "/metrics/", "/Metrics", "//metrics", "/stats"} {
		if got := ask(t, h, "GET", path, nil).StatusCode; got != 404 {
			t.Errorf("%s: %d", path, got)
		}
	}
}
