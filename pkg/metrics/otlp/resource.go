package otlp

import (
	"cmp"
	"slices"
	"strings"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
)

// Resource describes the source of metrics and spans. Any field may be empty.
type Resource struct {
	Namespace     string
	Service       string
	Configuration string
	Revision      string
	Pod           string
	Version       string // version of the gate

	ServiceName string // overrides Service, Configuration and Revision
	// Attributes are additional attributes. If a field above sets the same key, the field
	// takes precedence. If a key occurs more than once here, its last value counts.
	Attributes []KeyValue
}

// KeyValue is an attribute of a resource.
type KeyValue struct{ Key, Value string }

const keyServiceName = "service.name"

// Name returns service.name. It is the first nonempty value of ServiceName, Service,
// Configuration, Revision, and the attribute service.name. If all are empty, it is
// "queuegate".
func (r *Resource) Name() string {
	var attribute string
	for _, a := range r.Attributes {
		if a.Key == keyServiceName {
			attribute = a.Value
		}
	}
	return cmp.Or(r.ServiceName, r.Service, r.Configuration, r.Revision, attribute, "queuegate")
}

// containerName is the name of the gate's container in Knative.
const containerName = "queue-proxy"

// Message returns the resource as an OTLP message: the attributes that identify the gate,
// without empty ones, then Attributes.
func (r *Resource) Message() *resource.Resource {
	m := new(resource.Resource)
	for _, a := range [...]struct{ key, value string }{
		{keyServiceName, r.Name()},
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
	own := len(m.Attributes)
	for _, a := range r.Attributes {
		i := slices.IndexFunc(m.Attributes, func(kv *common.KeyValue) bool { return kv.Key == Text(a.Key) })
		switch {
		case i < 0:
			m.Attributes = append(m.Attributes, Attribute(a.Key, a.Value))
		case i >= own:
			m.Attributes[i] = Attribute(a.Key, a.Value)
		}
	}
	return m
}

// Scope returns the instrumentation scope that names the gate.
func (r *Resource) Scope() *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "github.com/queuegate/queuegate", Version: Text(r.Version)}
}

// Attribute converts a string, bool, int64 or float64. A value of another type becomes
// an empty value.
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

// Text replaces invalid UTF-8 in s. Protobuf would otherwise reject the whole message.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
