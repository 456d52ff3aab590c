package config

import (
	"fmt"

	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
)

// templateValue is a template for request log lines. checkTemplate reads it.
type templateValue string

func (v *templateValue) set(text string) error {
	*v = templateValue(text)
	return nil
}
func (v *templateValue) text() string { return string(*v) }
func (*templateValue) accepts() string {
	return "json, or a Go template over .Request, .Response, .Revision and .TraceID"
}
func (*templateValue) hint() string { return "TEMPLATE" }

// checkTemplate refuses a template that does not parse only where lines are written: Knative sends that of the cluster to every
// pod, whether its log is on or off.
func (l *loading) checkTemplate() {
	const env = "SERVING_REQUEST_LOG_TEMPLATE"
	err := requestlog.Check(l.cfg.RequestLogTemplate)
	if err == nil {
		return
	}
	err = wantError(l.nameOf(env, l.cfg.RequestLogTemplate), (*templateValue)(nil).accepts(), err)
	if l.cfg.RequestLog {
		l.problem(env, "%w", err)
		return
	}
	l.warnings = append(l.warnings, fmt.Sprintf("%v (ignored while the request log is off)", err))
	l.cfg.RequestLogTemplate = ""
}
