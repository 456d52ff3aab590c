package orca

import (
	"bytes"
	"encoding/base64"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// full returns a report with a value in every field that TEXT supports.
func full() *Report {
	return &Report{
		CPUUtilization: 0.7, MemUtilization: 0.9, ApplicationUtilization: 0.8, RPS: 1000.5, EPS: 2,
		Utilization: []Metric{{"disk", 0.25}}, Named: []Metric{{"queue_depth", 0}, {"tokens", 12}},
	}
}

func cut(t *testing.T, line []byte) (name, value []byte) {
	t.Helper()
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	name, value, ok2 := bytes.Cut(line, []byte(": "))
	if !ok || !ok2 || bytes.ContainsAny(value, "\r\n") {
		t.Fatalf("%q is no field line", line)
	}
	return name, value
}

func TestAReportIsReadBackInEveryFormat(t *testing.T) {
	for _, f := range []Format{Text, JSON, Binary} {
		name, value := cut(t, full().AppendField(nil, f))
		got, err := ParseField(name, value)
		if err != nil || !reflect.DeepEqual(got, full()) {
			t.Errorf("format %d: %s: %s is parsed as %+v, %v", f, name, value, got, err)
		}
	}
}

func TestAReportIsWrittenInEveryFormat(t *testing.T) {
	r := &Report{ApplicationUtilization: 0.5, RPS: 20, RequestCost: []Metric{{"cpu_ms", 3}}, Named: []Metric{{"queue_depth", 4}}}
	for f, want := range map[Format]string{
		Text: "endpoint-load-metrics: TEXT application_utilization=0.5,rps_fractional=20,named_metrics.queue_depth=4\r\n",
		JSON: `endpoint-load-metrics: JSON {"application_utilization":0.5,"rps_fractional":20,"request_cost":{"cpu_ms":3},"named_metrics":{"queue_depth":4}}` + "\r\n",
		Binary: "endpoint-load-metrics-bin: " + base64.StdEncoding.EncodeToString([]byte("\x49\x00\x00\x00\x00\x00\x00\xe0\x3f"+"\x31\x00\x00\x00\x00\x00\x00\x34\x40"+
			"\x22\x11\x0a\x06cpu_ms\x11\x00\x00\x00\x00\x00\x00\x08\x40"+"\x42\x16\x0a\x0bqueue_depth\x11\x00\x00\x00\x00\x00\x00\x10\x40")) + "\r\n",
	} {
		if got := string(r.AppendField(nil, f)); got != want {
			t.Errorf("format %d: %q, want %q", f, got, want)
		}
	}
	if got := string((&Report{}).AppendField(nil, JSON)); got != "endpoint-load-metrics: JSON {}\r\n" {
		t.Errorf("an empty report: %q", got)
	}
}

func TestFormatNamesAreCaseInsensitive(t *testing.T) {
	for value, want := range map[string]Format{"TEXT": Text, "text": Text, "JSON": JSON, "Bin": Binary, "": None, "XML": None, "TEXT,JSON": None} {
		if got := ParseFormat([]byte(value)); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

func TestALoadReportInAResponseFieldIsParsed(t *testing.T) {
	for value, want := range map[string]*Report{
		"TEXT cpu_utilization:0.3, mem_utilization=0.5 ,named_metrics.kv_cache=0.1":  {CPUUtilization: 0.3, MemUtilization: 0.5, Named: []Metric{{"kv_cache", 0.1}}},
		`JSON {"cpuUtilization": 0.3, "rps": "7", "namedMetrics": {"b": 2, "a": 1}}`: {CPUUtilization: 0.3, Named: []Metric{{"a", 1}, {"b", 2}}},
		"BIN CQAAAAAAAOA/": {CPUUtilization: 0.5},
	} {
		if got, err := ParseField([]byte(TextHeader), []byte(value)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", value, got, err, want)
		}
	}
	if got, err := ParseField([]byte("Endpoint-Load-Metrics-Bin"), []byte("CQAAAAAAAOA/GAc")); err != nil || got.CPUUtilization != 0.5 {
		t.Errorf("base64 without padding and a field that is not kept: %+v, %v", got, err)
	}
}

func TestMalformedReportsAreRejected(t *testing.T) {
	for _, value := range []string{
		"", "TEXT", "XML <a/>", "TEXT cpu_utilization", "TEXT cpu_utilization=x", "TEXT cpu_utilization=NaN", "TEXT eps=Inf", "TEXT unknown=1",
		"TEXT eps=1,eps=2", "TEXT named_metrics.a=1,named_metrics.a=2", "TEXT named_metrics.=1",
		"JSON", "JSON {", `JSON {"eps":"x"}`, `JSON {"named_metrics":{"a b":1}}`, `JSON {"named_metrics":1}`,
		"BIN *", "BIN CQAA", "BIN Qv8=", "BIN " + base64.StdEncoding.EncodeToString((&Report{EPS: math.NaN()}).AppendProto(nil)),
		"TEXT named_metrics.a=" + strings.Repeat("0", MaxFieldBytes),
	} {
		if r, err := ParseField([]byte(TextHeader), []byte(value)); err == nil {
			t.Errorf("%.80q is parsed as %+v", value, r)
		}
	}
}

func TestAMergedReportKeepsItsValuesAndHasNoDuplicateNames(t *testing.T) {
	r := &Report{CPUUtilization: 0.3, ApplicationUtilization: 0.6, Named: []Metric{{"queue_depth", 9}}}
	r.Merge(&Report{ApplicationUtilization: 0.1, RPS: 5, Named: []Metric{{"queue_depth", 1}, {"queue_wait_seconds", 0.5}}})
	want := &Report{CPUUtilization: 0.3, ApplicationUtilization: 0.6, RPS: 5, Named: []Metric{{"queue_depth", 9}, {"queue_wait_seconds", 0.5}}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, want %+v", r, want)
	}
}

func TestTheReportIntervalOfARequestIsParsed(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"":                             0,
		"\x0a\x00":                     0,
		"\x0a\x02\x08\x0a":             10 * time.Second,
		"\x0a\x05\x10\x80\xca\xb5\xee": -1, // truncated
		"\x0a\x05\x10\x80\xca\xb5\x6e": 231564544,
		"\x12\x03cpu\x0a\x02\x08\x01":  time.Second,
	} {
		got, err := ParseRequest([]byte(message))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %s, %v, want %s", message, got, err, want)
		}
	}
	forever := append([]byte("\x0a\x0a\x08"), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)
	if got, err := ParseRequest(forever); err != nil || got < 200*365*24*time.Hour {
		t.Errorf("the longest interval: %s, %v", got, err)
	}
	nanos := append([]byte("\x0a\x10"), append(forever[2:], 0x10, 0xff, 0xff, 0xff, 0xff, 0x07)...) // 2³¹−1, above the valid 999,999,999
	if got, err := ParseRequest(nanos); err != nil || got < 200*365*24*time.Hour {
		t.Errorf("the longest interval with invalid nanoseconds: %s, %v", got, err)
	}
}

func FuzzReport(f *testing.F) {
	for _, format := range []Format{Text, JSON, Binary} {
		name, value, _ := bytes.Cut(bytes.TrimSpace(full().AppendField(nil, format)), []byte(": "))
		f.Add(string(name) == BinaryHeader, value)
	}
	f.Fuzz(func(t *testing.T, binary bool, value []byte) {
		name := TextHeader
		if binary {
			name = BinaryHeader
		}
		r, err := ParseField([]byte(name), value)
		if err != nil {
			return
		}
		for _, format := range []Format{Text, JSON, Binary} {
			name, value := cut(t, r.AppendField(nil, format))
			again, err := ParseField(name, value)
			if err != nil && len(value) <= MaxFieldBytes && !(format == Text && len(value) == len("TEXT ")) {
				t.Errorf("%q was parsed, but not %q", value, err)
			}
			if format == Binary && err == nil && !reflect.DeepEqual(again, r) {
				t.Errorf("%+v is parsed back as %+v", r, again)
			}
		}
	})
}
