package otlp

import (
	"cmp"
	"strings"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
)

// Resource is what metrics and spans are of. Any part may be empty.
type Resource struct {
	Namespace     string
	Service       string
	Configuration string
	Revision      string
	Pod           string
	Version       string // of the gate
}

// Name is the service's, the configuration's or the revision's, whichever is
// there first, as Knative has it.
func (r *Resource) Name() string {
	return cmp.Or(r.Service, r.Configuration, r.Revision, "queuegate")
}

// containerName is that of the gate to Knative.
const containerName = "queue-proxy"

// Message has Knative's attributes, without those that are empty.
func (r *Resource) Message() *resource.Resource {
	m := new(resource.Resource)
	for _, a := range [...]struct{ key, value string }{
		{"service.name", r.Name()},
		{"service.version", r.Version},
		{"service.instance.id", r.Pod},
		{"container.name", containerName},
		{"k8s.namespace.name", r.Namespace},
		{"k8s.pod.name", r.Pod},
		{"kn.service.name", r.Service},
		{"kn.configuration.name", r.Configuration},
		{"kn.revision.name", r.Revision},
	} {
		if a.value != "" {
			m.Attributes = append(m.Attributes, Attribute(a.key, a.value))
		}
	}
	return m
}

// Scope names the gate as the source.
func (r *Resource) Scope() *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "github.com/queuegate/queuegate", Version: Text(r.Version)}
}

// Attribute takes a string, bool, int64 or float64; of anything else the value
// is empty.
func Attribute(key string, value any) *common.KeyValue {
	v := new(common.AnyValue)
	switch value := value.(type) {
	case string:
		v.Value = &common.AnyValue_StringValue{StringValue: Text(value)}
	case bool:
		v.Value = &common.AnyValue_BoolValue{BoolValue: value}
	case int64:
		v.Value = &common.AnyValue_IntValue{IntValue: value}
	case float64:
		v.Value = &common.AnyValue_DoubleValue{DoubleValue: value}
	}
	return &common.KeyValue{Key: Text(key), Value: v}
}

// Text makes s fit for protobuf, which refuses a whole message for one string
// that is not UTF-8.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
