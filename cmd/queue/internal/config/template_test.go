package config

import (
	"strings"
	"testing"
)

func TestAnInvalidLogTemplateIsAProblemOnlyIfTheRequestLogIsOn(t *testing.T) {
	for _, template := range []string{"{{", "{{.Request", "{{nosuch .Request}}", "{{if}}", "{{end}}"} {
		for _, c := range []struct {
			args []string
			env  map[string]string
			name string
		}{
			{nil, map[string]string{"SERVING_REQUEST_LOG_TEMPLATE": template}, "SERVING_REQUEST_LOG_TEMPLATE=" + quoteShort(template)},
			{[]string{"--request-log-template", template}, nil, "SERVING_REQUEST_LOG_TEMPLATE=" + quoteShort(template) + " (--request-log-template)"},
			{nil, map[string]string{"OBSERVABILITY_CONFIG": `{"requestLogTemplate":"` + template + `"}`},
				"OBSERVABILITY_CONFIG requestLogTemplate=" + quoteShort(template)},
		} {
			const want = ": want json, or a Go template over .Request, .Response, .Revision and .TraceID: line:1: "
			problems := problemsOf(t, append(c.args, "--request-log"), c.env)
			if len(problems) != 1 || !strings.HasPrefix(problems[0], c.name+want) {
				t.Errorf("with the log on: %q; want one that begins with %s", problems, c.name+want)
			}
			cfg, _, warnings, err := load(c.args, c.env)
			if err != nil || cfg.RequestLogTemplate != "" || len(warnings) != 1 || !strings.HasPrefix(warnings[0], c.name+want) {
				t.Errorf("with the log off: %v, template %q, warnings %q", err, cfg.RequestLogTemplate, warnings)
			}
		}
	}
}

// Knative's controller passes one template, chosen by the operator of the cluster, to
// every pod. So a template that parses must not stop a gate or cause a warning, even if
// it cannot be executed for a request.
func TestALogTemplateThatParsesNeverCausesAProblemOrWarning(t *testing.T) {
	for _, template := range []string{
		"{{.Request.Cookies}} {{.Request.Context}} {{.Request.URL.JoinPath `x`}}", "{{.Request.None}}", "{{template `none`}}", "{{range 99999999999}}{{end}}",
	} {
		for _, on := range []string{"true", "false"} {
			cfg, _, warnings, err := load(nil, map[string]string{"SERVING_REQUEST_LOG_TEMPLATE": template, "SERVING_ENABLE_REQUEST_LOG": on})
			if err != nil || cfg.RequestLogTemplate != template || len(warnings) > 0 {
				t.Errorf("%s: %v, %q", template, err, warnings)
			}
		}
	}
}
