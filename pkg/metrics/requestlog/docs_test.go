package requestlog

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
)

const docsPath = "../../../docs/logs.md"

// docsPart compares a section of the page docs/logs.md with the expected text. If the
// test runs with -update, docsPart writes the expected text to the page instead.
func docsPart(t *testing.T, name, want string) {
	t.Helper()
	begin := "<!-- " + name + ": begin; go test ./pkg/metrics/requestlog -run Docs -update -->\n"
	end := "<!-- " + name + ": end -->\n"
	testkit.Section(t, docsPath, begin, end, "\n"+strings.TrimSpace(want)+"\n\n")
}

func TestDocsShowTheLinesThatAreWritten(t *testing.T) {
	docsPart(t, "lines", "Knative's default:\n\n```json\n"+rendered(t, "", testHead, testResult)+
		"```\n\n`json`:\n\n```json\n"+rendered(t, Preset, testHead, testResult)+"```\n")
}

func TestDocsListTheFieldsOfATemplate(t *testing.T) {
	head := testHead
	head.Fields = append(pairs{{"Cookie", "session=abc"}}, head.Fields.(pairs)...)
	var b strings.Builder
	b.WriteString("| in a template | is | for example |\n|---|---|---|\n")
	for _, row := range [][2]string{
		{".Request.Method", "method"},
		{".Request.RequestURI", "the request target, unchanged"},
		{".Request.URL", "the target as a URL; its members: `Path` (decoded), `RawQuery`, `Query`, `EscapedPath`, …"},
		{".Request.URL.Path", "the path, decoded"},
		{`.Request.URL.Query.Get "y"`, "a parameter of the query"},
		{".Request.Host", "the Host field"},
		{".Request.Proto", "the protocol; also `ProtoMajor`, `ProtoMinor`"},
		{".Request.RemoteAddr", "the peer of the connection"},
		{".Request.UserAgent", "User-Agent"},
		{".Request.Referer", "Referer"},
		{`(.Request.Cookie "session").Value`, "a cookie; `{{.Request.Cookies}}` has all cookies"},
		{`.Request.FormValue "y"`, "a parameter of the query; parameters in a body are not available"},
		{".Request.ContentLength", "length of the body in bytes, announced or received"},
		{`.Request.Header.Get "X-Many"`, "the first value of a field, in any case of its name"},
		{`index .Request.Header "X-Many"`, "all values of a field; the name must be spelled in this form"},
		{`index .Request.Header "X-Many" 1`, "one value of a field"},
		{".Response.Code", "status"},
		{".Response.Size", "bytes of the body"},
		{".Response.Latency", "seconds from the arrival to the end"},
		{".Revision.Name", "`SERVING_REVISION`"},
		{".Revision.Namespace", "`SERVING_NAMESPACE`"},
		{".Revision.Service", "`SERVING_SERVICE`"},
		{".Revision.Configuration", "`SERVING_CONFIGURATION`"},
		{".Revision.PodName", "`SERVING_POD`"},
		{".Revision.PodIP", "`SERVING_POD_IP`"},
		{".TraceID", "the trace id, as `traceId` above"},
	} {
		value := strings.TrimSpace(rendered(t, "{{"+row[0]+"}}", head, testResult))
		if value == "" || value == "[]" {
			t.Errorf("{{%s}} renders nothing", row[0])
		}
		fmt.Fprintf(&b, "| `{{%s}}` | %s | `%s` |\n", row[0], row[1], value)
	}
	docsPart(t, "fields", b.String())
}

func TestDocsShowWhatTemplatesRender(t *testing.T) {
	var b strings.Builder
	failed := testResult
	failed.Status = 503
	for _, text := range []string{
		`{{.Request.RemoteAddr}} "{{.Request.Method}} {{.Request.RequestURI}} {{.Request.Proto}}" {{.Response.Code}} {{.Response.Size}} {{printf "%.3f" .Response.Latency}}`,
		`{"path": "{{js .Request.URL.Path}}", "agent": "{{.Request.UserAgent}}", "status": {{.Response.Code}}, "seconds": {{printf "%.3f" .Response.Latency}}}`,
		`{{if ge .Response.Code 500}}{{.Revision.Name}} {{.Response.Code}} {{or (.Request.Header.Get "X-Request-Id") .TraceID "-"}}{{end}}`,
	} {
		fmt.Fprintf(&b, "```text\n%s\n```\n\n→ `%s`\n\n", text, strings.TrimSuffix(rendered(t, text, testHead, failed), "\n"))
	}
	docsPart(t, "templates", b.String())
}

func TestDocsListTheLogLevelOfEachOutcome(t *testing.T) {
	levels := map[gate.Level]string{gate.Debug: "debug", gate.Info: "info", gate.Warn: "warn", gate.Error: "error"}
	var b strings.Builder
	b.WriteString("| outcome | status | logged as | means |\n|---|---|---|---|\n")
	for _, o := range gate.Outcomes() {
		m := o.Meaning()
		status := "the container's"
		if m.Status != 0 {
			status = strconv.Itoa(m.Status)
		}
		if m.Means == "" {
			t.Errorf("nothing says what %v means", o)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, status, levels[m.Level], m.Means)
	}
	docsPart(t, "outcomes", b.String())
}
