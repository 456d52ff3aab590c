package requestlog

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"text/template"

	"github.com/queuegate/queuegate/pkg/gate"
)

// reference renders a template with an unmodified text/template and a real http.Request.
// Tests compare the line of the log with the result.
func reference(t *testing.T, text string, head gate.Record, result Result) string {
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

func TestRequestMethodsWorkInATemplate(t *testing.T) {
	head := testHead
	head.Fields = append(pairs{{"Cookie", `a=1; b="2"`}, {"cookie", "c=3"}}, head.Fields.(pairs)...)
	for text, want := range map[string]string{
		`{{.Request.Cookies}}`: `[a=1 b="2" c=3]`,
		`{{range .Request.Cookies}}{{.Name}}:{{.Value}};{{end}}`:                                              "a:1;b:2;c:3;",
		`{{.Request.Cookie "b"}}`:                                                                             `b="2"`,
		`{{(.Request.Cookie "c").Value}}{{with .Request.Cookie "none"}}x{{else}}-{{end}}`:                     "3-",
		`{{len (.Request.CookiesNamed "a")}}`:                                                                 "1",
		`{{.Request.Context}}{{.Request.Context.Err}}`:                                                        "context.Background",
		`{{.Request.URL.JoinPath "../d"}} {{(.Request.URL.JoinPath "d").Path}}`:                               "/a%20b/d?x=1&x=2&y=z /a b/c/d",
		`{{.Request.URL.Query.x}} {{.Request.URL.Query.Get "y"}} {{.Request.FormValue "x"}}`:                  "[1 2] z 1",
		`{{.Request.PostFormValue "x"}}{{.Request.PathValue "x"}}{{.Request.Pattern}}{{.Request.Form}}`:       "map[x:[1 2] y:[z]]",
		`{{.Request.ParseForm}}{{.Request.Form.Get "x"}}{{.Request.TLS}}{{.Request.Body}}{{.Request.Cancel}}`: "missing form body1",
		`{{.Request.URL.User.Username}}{{.Request.URL.User}}{{.Request.Response}}{{.Request.GetBody}}`:        "",
		`{{.Request.ContentLength}} {{.Request.TransferEncoding}}{{.Request.Trailer}} {{.Request.Close}}`:     "17 map[] false",
		`{{(.Request.WithContext .Request.Context).Method}} {{(.Request.Clone .Request.Context).Proto}}`:      "POST HTTP/1.1",
		`{{.Request}}{{.Response}}`: "{200 1234 0.012346}",
		`{{slice .Request.Host 0 5}} {{slice .Request.Host 20 99}} {{slice (.Request.Header.Values "X-Many") 1 9}}`: "hello e.com [two]",
	} {
		want += "\n"
		if want == "\n" {
			want = ""
		}
		if got := rendered(t, text, head, testResult); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestMissingValuesRenderEmpty(t *testing.T) {
	for _, text := range []string{
		`{{index .Request.Header "X-None"}}`, `{{.Request.Header.Get "X-None"}}`, `{{index .Request.Header "X-None" 3}}`,
		`{{.Request.UserAgent}}`, `{{.Request.Referer}}`, `{{.TraceID}}`, `{{.Request.RemoteAddr}}`, `{{.Request.Host}}`,
		`{{.Request.TLS}}`, `{{.Request.URL.User.Username}}`, `{{.Request.Header.Accept}}`, `{{.Request.Cookies}}`,
		`{{index .Request.URL.Query "q"}}`, `{{slice .Request.Host 4}}`, `{{.Request.Cookie "a"}}`, `{{(.Request.Cookie "a").Value}}`, `{{index .Request.Host 1}}`,
		`{{range .Request.Header}}x{{end}}`, `{{with .Request.Header.Accept}}x{{end}}`, `{{or .Request.TLS ""}}`,
		`{{index (index .Request.Header "X-None") 0}}`, `{{js (index .Request.Header "X-None")}}`, `{{index .Request.Header.Accept 0 0}}`,
		`{{if len .Request.Header.Accept}}x{{end}}`, `{{slice .Request.Header.Accept 1 2}}`,
	} {
		if got := rendered(t, "<"+text+">", gate.Record{}, Result{}); got != "<>\n" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestATemplateThatDoesNotParseIsRejectedWithThePosition(t *testing.T) {
	for text, want := range map[string]string{
		`{{`:                              "unclosed action",
		`{{frob .Request}}`:               `function "frob" not defined`,
		`{{_escape .Request}}`:            `function "_escape" not defined`,
		`{{if .TraceID}}{{.Request.X}}`:   "unexpected EOF",
		"{{.Request.Method}}\n{{$x}}":     "undefined variable",
		`{{range .Request.Header}}{{end`:  "unclosed action",
		`{{define "x"}}{{break}}{{end}}x`: "{{break}} outside",
	} {
		_, err := New(Config{Template: text, Writer: new(bytes.Buffer)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "request log template: line:") {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
		if Check(text) == nil {
			t.Errorf("Check takes %s", text)
		}
	}
	for _, text := range []string{"", Preset, knativeDefaults[0], knativeDefaults[1], "x", "{{.None}}"} {
		if err := Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestARenderingErrorLosesTheLineAndIsReportedOnce(t *testing.T) {
	for text, want := range map[string]string{
		`{{.Request.Methd}}`:                 "can't evaluate field Methd",
		`{{.Nothing}}`:                       "can't evaluate field Nothing",
		`{"status": {{.Response.Status}}}`:   "can't evaluate field Status",
		`{{.Revision.Pod}}`:                  "can't evaluate field Pod",
		`{{.Request.URL.Foo}}`:               "can't evaluate field Foo",
		`{{.Request.Method "x"}}`:            "Method",
		`{{.Request.Header.Get}}`:            "wrong number of args for Get",
		`{{.Request.TLS.ServerName}}`:        "nil pointer",
		`{{.Request.BasicAuth}}`:             "BasicAuth",
		`{{len .Response.Code}}`:             "len of type int",
		`{{eq .Response.Code "x"}}`:          "incompatible types",
		`{{index .Response.Code 1}}`:         "int has no index",
		`{{index .Request.Header 1}}`:        "a key must be a string",
		`{{index .Request.Host "x"}}`:        "must be a whole number",
		`{{slice .Response.Code 1}}`:         "slice takes",
		`{{template "none"}}`:                `"none" not defined`,
		`{{call .Request.Method}}`:           "non-function",
		`{{range .Response}}{{end}}`:         "range can't iterate",
		`{{"x" 1}}`:                          "can't give argument to non-function",
		`{{.Request.URL.Parse "%zz"}}`:       "invalid URL escape",
		`{{printf "%s" nil nil | .Request}}`: "Request",
		`a{{define "x"}}b{{template "x"}}{{template "x"}}{{end}}{{template "x"}}c`: "more than 100 templates",
	} {
		var out bytes.Buffer
		var faults []error
		l, err := New(Config{Template: text, Writer: &out, Failed: func(err error) { faults = append(faults, err) }})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for range 3 {
			l.Begin(&testHead).End(testResult)
		}
		closed(t, l)
		if out.Len() > 0 || l.Dropped() != 3 || len(faults) != 1 || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%.80s: wrote %.80q, %d dropped, told %v; want %s", text, out.String(), l.Dropped(), faults, want)
		}
	}
}

func TestOneLostLineDoesNotAffectOthers(t *testing.T) {
	var out bytes.Buffer
	l, err := New(Config{Template: `{{.Request.RequestURI}}{{if eq .Response.Code 500}}{{.None}}{{end}}`, Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	for i, status := range []int{200, 500, 200, 500} {
		l.Begin(numbered(i)).End(Result{Status: status})
	}
	closed(t, l)
	if out.String() != "0\n2\n" || l.Dropped() != 2 {
		t.Errorf("%q, %d dropped", out.String(), l.Dropped())
	}
}

func TestAPanicInATemplateLosesOnlyItsLine(t *testing.T) {
	l := new(Log)
	if err := l.SetTemplate(`{{.Request.Method}}`); err != nil {
		t.Fatal(err)
	}
	broken := &Entry{log: l, fixed: [4]int{1, 2, 3, 4}}
	if line, err := l.format.Load().render.appendLine([]byte("before"), broken, &testRevision); err == nil || string(line) != "before" {
		t.Errorf("%q, %v", line, err)
	}
	l.entries.New = func() any { return newEntry(l) }
	if line, err := l.format.Load().render.appendLine(nil, l.Begin(&testHead), &testRevision); err != nil || string(line) != "POST" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestAClientCannotForgeALine(t *testing.T) {
	head := gate.Record{
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

func TestAnEmptyResultWritesNoLine(t *testing.T) {
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
