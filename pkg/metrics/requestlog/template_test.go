package requestlog

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"text/template"
)

// reference renders with text/template and net/http's types.
func reference(t *testing.T, text string, head Head, result Result) string {
	t.Helper()
	tmpl, err := template.New("line").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.ParseRequestURI(string(head.Target))
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{
		Method: string(head.Method), URL: u, RequestURI: string(head.Target), Proto: string(head.Protocol),
		ProtoMajor: 1, ProtoMinor: 1, Host: string(head.Host), RemoteAddr: head.Peer.String(),
		Header: http.Header{}, ContentLength: 17,
	}
	for name, value := range head.Fields.Each {
		if string(name) != "Host" {
			r.Header.Add(string(name), string(value))
		}
	}
	var out bytes.Buffer
	err = tmpl.Execute(&out, struct {
		Request  *http.Request
		Response *struct {
			Code, Size int
			Latency    float64
		}
		Revision *RevisionInfo
		TraceID  string
	}{r, &struct {
		Code, Size int
		Latency    float64
	}{result.Status, int(result.ResponseBytes), result.Total.Seconds()}, &testRevision, "0af7651916cd43dd8448eb211c80319c"})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}

func TestTemplatesRenderAsTextTemplateDoes(t *testing.T) {
	for _, text := range []string{
		`plain`,
		`{{.Request.Method}} {{.Request.RequestURI}} {{.Request.URL}} {{.Request.Host}} {{.Request.Proto}} {{.Request.RemoteAddr}}`,
		`{{.Request.UserAgent}}|{{.Request.Referer}}|{{.Request.ContentLength}}|{{.Request.ProtoMajor}}.{{.Request.ProtoMinor}}`,
		`{{.Response.Code}} {{.Response.Size}} {{.Response.Latency}}`,
		`{{.Revision.Name}} {{.Revision.Namespace}} {{.Revision.Service}} {{.Revision.Configuration}} {{.Revision.PodName}} {{.Revision.PodIP}}`,
		`{{.TraceID}}`,
		`{{.Request.Header.Get "x-many"}} {{index .Request.Header "X-Many"}} {{index .Request.Header "X-Many" 1}} {{.Request.Header.Referer}}`,
		`{{.Request.Header.Values "X-Many"}} {{"X-Many" | .Request.Header.Get}} {{len .Request.Header}}`,
		`{{range $k, $v := .Request.Header}}{{$k}}={{range $i, $w := $v}}{{if $i}},{{end}}{{$w}}{{end}};{{end}}`,
		`{{range .Request.Header}}{{.}}{{else}}none{{end}}`,
		`{{with .Request}}{{.Method}} {{.Header.Get "Referer"}} {{$.Response.Code}}{{end}}`,
		`{{with .Request.Header}}{{.Get "X-Many"}}{{end}}`,
		`{{with .Request.Header.Get "None"}}some{{else}}none{{end}}`,
		`{{with .Request.Header.Get "None"}}some{{else with .Request.Host}}{{.}}{{end}}`,
		`{{$h := .Request.Header}}{{$h.Get "X-Many"}}{{$m := "a"}}{{if true}}{{$m = "b"}}{{end}}{{$m}}`,
		`{{if eq .Response.Code 200}}ok{{else if ge .Response.Code 500}}bad{{else}}other{{end}}`,
		`{{if and .TraceID (gt .Response.Size 1000) (lt .Response.Latency 1.5)}}yes{{end}}{{or "" .Request.Host}}{{and 1 0 2}}`,
		`{{if or (eq .Request.Method "GET" "POST") (ne 1 1)}}{{not true}}{{end}}{{le 1 2}}{{le 2 1}}{{ge 2 2}}{{gt 1.5 2.5}}{{lt "a" "b"}}`,
		`{{printf "%s %03d %.3f %q %5v" .Request.Method .Response.Code .Response.Latency .Request.Host true}}`,
		`{{print 1 2 "a" "b" 3}}{{print .Request.Method .Response.Code .Response.Size}}{{println "x" 1}}-`,
		`{{html .Request.UserAgent}} {{urlquery .Request.UserAgent}} {{js .Request.Referer}} {{.Request.Referer | js | html}}`,
		`{{len .Request.Host}} {{slice .Request.Host 1 3}} {{slice .Request.Host 3}} {{index .Request.Host 0}} {{slice (.Request.Header.Values "X-Many") 1}}`,
		`{{.Request.URL.Path}} {{.Request.URL.RawQuery}} {{.Request.URL.Query.Get "x"}} {{.Request.URL.Query}} {{.Request.URL.EscapedPath}} {{.Request.URL.IsAbs}} {{.Request.URL.Hostname}}|`,
		`{{(.Request.URL.Query).Encode}} {{index .Request.URL.Query "x" 1}} {{.Request.URL.Query.Has "q"}} {{.Request.URL.String}} {{(index .Request.Header "X-Many") | len}}`,
		`{{.Request.ProtoAtLeast 1 1}} {{.Request.ProtoAtLeast 2 0}} {{.Request.FormValue "y"}} {{.Request.Close}}`,
		`{{define "a"}}[{{.}}{{$}}]{{end}}{{template "a" .Response.Code}}{{block "b" .Request}}{{.Method}}{{end}}`,
		`{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}{{with 3}}{{$x := .}}{{$x}}{{end}}{{$x}}{{range 2}}{{$x := 7}}{{end}}{{$x}}`,
		`{{define "v"}}{{$x := 5}}{{$x}}{{end}}{{$x := 0}}{{template "v"}}{{$x}}{{range $x := 2}}{{$x}}{{else}}{{end}}{{$x}}`,
		`{{range 3}}{{.}}{{end}}{{range $i := 2}}{{$i}}{{end}}`,
		`{{range .Request.Header.Values "X-Many"}}{{if eq . "two"}}{{break}}{{end}}{{.}}{{end}}{{range .Request.Header.Values "X-Many"}}{{if eq . "one"}}{{continue}}{{end}}{{.}}{{end}}`,
		"a {{- /* nothing */ -}} b {{- 1 -}} c\t{{`raw`}} {{'a'}} {{0x1F}} {{1e3}} {{1.5}} {{true}} {{-3}}",
	} {
		want := reference(t, text, testHead, testResult) + "\n"
		if got := rendered(t, text, testHead, testResult); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestWhatIsMissingRendersEmpty(t *testing.T) {
	for _, text := range []string{
		`{{index .Request.Header "X-None"}}`, `{{.Request.Header.Get "X-None"}}`, `{{index .Request.Header "X-None" 3}}`,
		`{{.Request.UserAgent}}`, `{{.Request.Referer}}`, `{{.TraceID}}`, `{{.Request.RemoteAddr}}`, `{{.Request.Host}}`,
		`{{.Request.TLS}}`, `{{.Request.TLS.ServerName}}`, `{{.Request.URL.User.Username}}`, `{{.Request.Header.Accept}}`,
		`{{index .Request.URL.Query "q"}}`, `{{slice .Request.Host 4}}`, `{{printf "%v" .Request.TLS}}`, `{{nil | print}}`,
		`{{range .Request.Header}}x{{end}}`, `{{with .Request.Header.Accept}}x{{end}}`, `{{or .Request.TLS.ServerName ""}}`,
		`{{index (index .Request.Header "X-None") 0}}`, `{{js (index .Request.Header "X-None")}}`,
	} {
		if got := rendered(t, "<"+text+">", Head{}, Result{}); got != "<>\n" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestAWrongTemplateIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		`{{`:                                   "unclosed action",
		`{{.Request.Methd}}`:                   ".Request has no Methd",
		`{{.Nothing}}`:                         "the record has no Nothing",
		`{{.Response.Status}}`:                 ".Response has no Status",
		`{{.Revision.Pod}}`:                    ".Revision has no Pod",
		`{{.Request.URL.Foo}}`:                 ".Request.URL has no Foo",
		`{{frob .Request}}`:                    `function "frob" not defined`,
		`{{if .TraceID}}{{.Request.X}}{{end}}`: ".Request has no X",
		`{{if .TraceID}}{{else}}{{range .Request.Header}}{{.Foo}}{{end}}{{end}}`: "has no Foo",
		`{{.Request.Method "x"}}`:    "Method takes no arguments",
		`{{.Request.Header.Get}}`:    "Get takes one argument",
		`{{len .Response.Code}}`:     "len of 0",
		`{{eq .Response.Code "x"}}`:  "cannot be compared",
		`{{eq .Response.Code}}`:      "two arguments",
		`{{index .Response.Code 1}}`: "index 1 of 0",
		`{{template "none"}}`:        `"none"`,
		`{{call .Request.Method}}`:   "function",
		`{{range .Response}}{{end}}`: "range cannot go over",
		`{{.Request.Method.Length}}`: "has no Length",
		`{{"x" 1}}`:                  "x",
	} {
		_, err := New(Config{Template: text, Writer: new(bytes.Buffer)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line:1") {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
		if Check(text) == nil {
			t.Errorf("Check takes %s", text)
		}
	}
	for _, text := range []string{"", Preset, knativeDefaults[0], knativeDefaults[1], "x"} {
		if err := Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestATemplateThatCallsItselfEnds(t *testing.T) {
	got := rendered(t, `a{{define "x"}}b{{template "x"}}{{template "x"}}{{end}}{{template "x"}}c`, Head{}, Result{})
	if want := "a" + strings.Repeat("b", maxDepth) + "\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestOnlyTheFieldsThatATemplateShowsAreCopied(t *testing.T) {
	for text, want := range map[string]string{
		``:  "User-Agent Referer Content-Length Traceparent X-B3-Traceid B3",
		`x`: "",
		`{{.Request.Method}} {{.Request.URL.Path}} {{.Response.Code}} {{.Request.Host}}`:  "",
		`{{.Request.UserAgent}}{{js .Request.Referer}}`:                                   "User-Agent Referer",
		`{{.Request.Header.Get "x-a"}}{{index .Request.Header "X-B" 0}}`:                  "X-A X-B",
		`{{with $r := .}}{{$r.Request.Header.Accept}}{{end}}{{$.Request.Header.Get "Q"}}`: "Accept Q",
		`{{if .TraceID}}{{.Request.ContentLength}}{{end}}`:                                "Traceparent X-B3-Traceid B3 Content-Length",
		`{{.Request.Header.Get .Request.Host}}`:                                           "all",
		`{{range .Request.Header}}{{end}}`:                                                "all",
		`{{with .Request}}{{end}}`:                                                        "all",
		`{{"X" | .Request.Header.Get}}`:                                                   "all",
		`{{(.Request).Header.Get "A"}}`:                                                   "all",
		`{{define "x"}}{{.Header.Get "A"}}{{end}}{{template "x" .Request}}`:               "all",
		`{{(.Request.Header.Get "A") | printf "%s"}}`:                                     "A",
	} {
		l := new(Log)
		if err := l.setTemplate(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := strings.Join(l.needs.names, " ")
		if l.needs.all {
			got = "all"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestAClientCannotForgeALine(t *testing.T) {
	head := Head{
		Method: []byte("GET"), Target: []byte("/a%0A%0D%09%1b%C2%85%E2%80%A8z?q=%0a"), Protocol: "HTTP/1.1",
		Fields: pairs{{"X", "a\x1b\u2028b"}},
	}
	for text, want := range map[string]string{
		`{{.Request.URL.Path}}`:                                    `/a\n\r` + "\t" + `\x1B\u0085\u2028z` + "\n",
		`{{.Request.URL.Query.Get "q"}}.`:                          `\n.` + "\n",
		`{{range $k, $v := .Request.Header}}{{$k}}{{$v}}{{end}}`:   `X[a\x1B\u2028b]` + "\n",
		`{{println .Request.URL.Path}}`:                            `/a\n\r` + "\t" + `\x1B\u0085\u2028z` + "\n",
		"\n  {{.Request.Method}}{{\"\\n\"}}{{.Request.Proto}}\n\n": "  GET\nHTTP/1.1\n",
	} {
		if got := rendered(t, text, head, Result{}); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestATemplateThatSaysNothingWritesNothing(t *testing.T) {
	const text = `{{if ge .Response.Code 500}}{"code": {{.Response.Code}}, "uri": "{{.Request.RequestURI}}"}{{end}}`
	if got := rendered(t, text, testHead, testResult); got != "" {
		t.Errorf("%q", got)
	}
	head := testHead
	head.Target = []byte(`/"`)
	if got, want := rendered(t, text, head, Result{Status: 503}), `{"code": 503, "uri": "/\""}`+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
