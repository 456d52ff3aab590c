package otlp

import (
	"fmt"
	"slices"
	"testing"
)

func TestAResourceIncludesTheConfiguredAttributes(t *testing.T) {
	extra := []KeyValue{{"team", "a"}, {"service.name", "from attributes"}, {"team", "b"}, {"k8s.pod.name", "other"}, {"empty", ""}}
	for _, c := range []struct {
		r    Resource
		want []string
	}{
		{Resource{}, []string{"service.name=queuegate", "container.name=queue-proxy"}},
		{Resource{Attributes: extra, Revision: "r", Pod: "p"},
			[]string{"service.name=r", "service.instance.id=p", "container.name=queue-proxy", "k8s.pod.name=p", "kn.revision.name=r", "team=b", "empty="}},
		{Resource{Attributes: extra}, []string{"service.name=from attributes", "container.name=queue-proxy", "team=b", "k8s.pod.name=other", "empty="}},
		{Resource{Attributes: extra, Revision: "r", ServiceName: "n"},
			[]string{"service.name=n", "container.name=queue-proxy", "kn.revision.name=r", "team=b", "k8s.pod.name=other", "empty="}},
	} {
		var got []string
		for _, a := range c.r.Message().Attributes {
			got = append(got, fmt.Sprintf("%s=%s", a.Key, a.Value.GetStringValue()))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
