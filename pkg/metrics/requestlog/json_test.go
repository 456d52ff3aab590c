package requestlog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/queuegate/queuegate/pkg/gate"
)

// member returns the value at a path in a line of JSON.
func member(t *testing.T, line string, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	for _, name := range path {
		v = v.(map[string]any)[name]
	}
	return v
}

func TestTheDefaultLineIsWhatKnativesTemplateRenders(t *testing.T) {
	head := testHead
	head.Fields = pairs{{"User-Agent", "curl/8"}, {"Content-Length", "17"}}
	got := rendered(t, "", head, testResult)
	want := reference(t, strings.ReplaceAll(knativeDefaults[1], "{{.TraceID}}", testResult.TraceID.String()), head, testResult)
	// The lines differ in one escape: the function js of text/template writes the
	// character = as \u003D, and the log writes it unchanged. So compare parsed values.
	if !reflect.DeepEqual(member(t, got), member(t, want)) || keys(got) != keys(want) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// keys returns the JSON keys of a line, in the order in which they occur.
func keys(line string) string {
	return strings.Join(regexp.MustCompile(`"\w+": `).FindAllString(line, -1), "")
}

func TestKnativesDefaultTemplateIsRecognized(t *testing.T) {
	wrapped := strings.ReplaceAll(knativeDefaults[0], `, "`, ",\n        \"")
	for _, text := range append(knativeDefaults[:], wrapped+"\n") {
		head := testHead
		head.Target = []byte(`/it's?"=\`)
		if got, want := rendered(t, text, head, testResult), rendered(t, "", head, testResult); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTheJSONPresetAddsTimesOutcomeAndBytes(t *testing.T) {
	line := rendered(t, Preset, testHead, testResult)
	for _, c := range []struct {
		path string
		want any
	}{
		{"timestamp", "2026-11-21T03:00:00.135802Z"}, {"outcome", "served"}, {"host", "hello.default.example.com"},
		{"queue_ms", 1.5}, {"upstream_ms", 10.846}, {"total_ms", 12.346}, {"request_bytes", 17.0}, {"response_bytes", 1234.0},
		{"traceId", "0af7651916cd43dd8448eb211c80319c"},
		{"httpRequest.status", 200.0}, {"httpRequest.requestUrl", "/a%20b/c?x=1&x=2&y=z"}, {"httpRequest.latency", "0.012346s"},
	} {
		if got := member(t, line, strings.Split(c.path, ".")...); got != c.want {
			t.Errorf("%s is %v, want %v", c.path, got, c.want)
		}
	}
}

func TestTunnelsAndDisconnectsAreLoggedAs101And499(t *testing.T) {
	for _, status := range []int{101, 499} {
		for _, text := range []string{"", Preset, `{"httpRequest": {"status": {{.Response.Code}}}}`} {
			line := rendered(t, text, testHead, Result{Status: status})
			if got := member(t, line, "httpRequest", "status"); got != float64(status) {
				t.Errorf("%q: %v, want %d", text, got, status)
			}
		}
	}
}

func TestTheRequestSizeIsTheAnnouncedOrTheReceivedLength(t *testing.T) {
	for _, c := range []struct {
		announced, want string
	}{{"17", "17"}, {"", "3"}, {"x", "3"}, {"-4", "3"}} {
		head := gate.Record{Fields: pairs{{"Content-Length", c.announced}}}
		for _, text := range []string{"", Preset, knativeDefaults[0], knativeDefaults[1] + "{{/* another */}}"} {
			if got := member(t, rendered(t, text, head, Result{RequestBytes: 3}), "httpRequest", "requestSize"); got != c.want {
				t.Errorf("%q, %q: %v, want %s", c.announced, text, got, c.want)
			}
		}
	}
}

func TestALogLineHasTheTraceIDOfTheSpanNotOfTraceparent(t *testing.T) {
	for id, want := range map[gate.TraceID]string{{0xab, 15: 1}: "ab000000000000000000000000000001", {}: ""} {
		for _, text := range []string{"", Preset, `{"traceId": "{{.TraceID}}"}`} {
			head := gate.Record{Fields: pairs{{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}}
			if got := member(t, rendered(t, text, head, Result{TraceID: id}), "traceId"); got != want {
				t.Errorf("%q: %v, want %q", text, got, want)
			}
		}
	}
}

// jsonTemplates are templates that produce JSON, with and without escaping.
var jsonTemplates = []string{
	"", Preset,
	"\n{\"requestMethod\": \"{{.Request.Method}}\", \"requestUrl\": \"{{js .Request.RequestURI}}\", \"userAgent\": \"{{js .Request.UserAgent}}\"}\n",
	`{"a": "{{.Request.Header.Get "X"}}", "b": "x{{.Request.RequestURI}}y", "c": {{.Response.Latency}}, "d": "{{.Request.URL.Path}}"}`,
	`{"quoted": {{printf "%q" .Request.UserAgent}}, "bare": {{.Request.Header.Get "X"}}, "n": {{.Response.Code}}, "t": {{eq 1 1}}}`,
	"{\n  \"header\": {\n{{range $k, $v := .Request.Header}}\"{{$k}}\": \"{{index $v 0}}\",\n{{end}}\"end\": 0}\n}\n",
	`{"a":"{{js .Request.Host | printf "%s"}}\"{{.Request.Proto}}","b":"{{html .Request.Referer}}","c":"{{println .Request.Method}}","d":"{{.Request.Header}}"}`,
	knativeDefaults[0] + " ",
	strings.Replace(knativeDefaults[0], "httpRequest", "request", 1),
	`{"a": "\{{.Request.Header.Get "X"}}", "b": "\\{{.Request.Header.Get "X"}}"}`,
	`{{define "s"}}"{{.}}"{{end}}{"a":{{template "s" .Request.RequestURI}},"b":{{template "s" .Request.Host}}}`,
}

func FuzzAnyHeadRendersOneValidLineOfJSON(f *testing.F) {
	f.Add("GET", "/a'b\"c\\", "HTTP/1.1", "h\xff", "it's\u2028\x00", "</script>", "1", int64(5))
	f.Add("G\n", "/%0a%22?%0d", "", "\x85", "\\", "a\\", `{"a":"`+"\n\"}", int64(-1))
	f.Add("", "*", "HTTP/2", "🙂\U000e0001", "\"", "\\\"", "1\n", int64(1<<40))
	f.Add("", "http://[::1]:x/%zz", "HTTP/x.y", "", "\ufffd", "\\u12", "tru", int64(3))
	f.Fuzz(func(t *testing.T, method, target, protocol, host, agent, referer, other string, n int64) {
		head := gate.Record{
			Method: []byte(method), Target: []byte(target), Protocol: protocol, Host: []byte(host),
			Peer:   netip.AddrPortFrom(netip.IPv6LinkLocalAllNodes().WithZone(agent), 1),
			Fields: pairs{{"User-Agent", agent}, {"Referer", referer}, {"X", other}, {other, agent}, {"x", agent}},
		}
		result := Result{Status: int(n), Outcome: "served", RequestBytes: n, Total: time.Duration(n)}
		for _, text := range jsonTemplates {
			line := rendered(t, text, head, result)
			if !json.Valid([]byte(line)) || !utf8.ValidString(line) || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") ||
				strings.ContainsAny(line, "\r\u2028\u2029\u0085") || line[0] != '{' {
				t.Fatalf("%s\n%q", text, line)
			}
		}
		if utf8.ValidString(agent) {
			if got := member(t, rendered(t, jsonTemplates[2], head, result), "userAgent"); got != agent {
				t.Fatalf("%q became %q", agent, got)
			}
			if got := member(t, rendered(t, Preset, head, result), "httpRequest", "userAgent"); got != agent {
				t.Fatalf("%q became %q", agent, got)
			}
		}
		line := rendered(t, `{{.Request.URL.Path}} {{.Request.Header}} {{.Request.URL.Query}} {{.Request.FormValue "a"}}.`, head, result)
		if strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\r\x1b\x00") {
			t.Fatalf("%q", line)
		}
	})
}

func FuzzAnyTemplateIsRefusedOrRenders(f *testing.F) {
	for _, text := range jsonTemplates {
		f.Add(text)
	}
	f.Add(`{{range $i, $x := .Request.Header}}{{break}}{{end}}{{with $x := .}}{{$x = nil}}{{end}}{{slice "abc" 1 2}}{{call nil}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.ContainsAny(text, "0123456789") {
			// With digits, a template could have a large width in a printf, or a large
			// number of iterations in a range. The test would be slow.
			return
		}
		l := new(Log)
		if l.SetTemplate(text) != nil {
			return
		}
		l.entries.New = func() any { return newEntry(l) }
		for _, r := range []Result{{}, testResult} {
			e := l.Begin(&testHead)
			e.result = r
			line, err := l.format.Load().render.appendLine(nil, e, &testRevision)
			if bytes.HasSuffix(line, []byte("\n")) || err != nil && len(line) > 0 {
				t.Errorf("%q, %v", line, err)
			}
		}
	})
}

func TestJSMatchesTextTemplateExceptForInvalidJSON(t *testing.T) {
	for in, want := range map[string]string{
		`a"b\c`: `a\"b\\c`, "<a&b=c>": `\u003Ca\u0026b\u003Dc\u003E`, "é🙂": "é🙂", "\t\n\x00": `\u0009\u000A\u0000`, "\u2028": `\u2028`,
		"it's": `it\u0027s`, "a\xffb": `a\uFFFDb`, "\U000e0001": `\uDB40\uDC01`,
	} {
		if got := string(appendJS(nil, in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+want+`"`), &back); err != nil || back != strings.ToValidUTF8(in, "\ufffd") {
			t.Errorf("%s reads as %q: %v", want, back, err)
		}
	}
}
