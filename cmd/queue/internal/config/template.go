package config

import "github.com/queuegate/queuegate/pkg/metrics/requestlog"

// templateValue is a template for request log lines.
type templateValue string

func (v *templateValue) set(text string) error {
	if err := requestlog.Check(text); err != nil {
		return err
	}
	*v = templateValue(text)
	return nil
}
func (v *templateValue) text() string { return string(*v) }
func (*templateValue) accepts() string {
	return "json, or a Go template over .Request, .Response, .Revision and .TraceID"
}
func (*templateValue) hint() string { return "TEMPLATE" }
