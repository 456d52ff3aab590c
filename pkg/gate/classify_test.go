package gate

import "testing"

// field makes a header value; nil stands for an absent field.
func field(s string) []byte {
	if s == absent {
		return nil
	}
	return []byte(s)
}

const absent = "\x00"

func TestProbesAreToldFromTraffic(t *testing.T) {
	for _, c := range []struct {
		sentence           string
		agent, probe, hash string
		kind               Kind
		asker              Asker
	}{
		{"no field at all is traffic", absent, absent, absent, Traffic, OtherAsker},
		{"a hash alone is traffic", absent, absent, "h", Traffic, OtherAsker},
		{"any user agent is traffic", "curl/8.5.0", absent, absent, Traffic, OtherAsker},
		{"empty fields are traffic", "", "", "", Traffic, OtherAsker},

		{"the kubelet asks for readiness", "kube-probe/1.31", "queue", absent, ReadinessProbe, Kubelet},
		{"so does the activator", "Knative-Activator-Probe", "queue", absent, ReadinessProbe, OtherAsker},
		{"so does the autoscaler", "Knative-Autoscaling-Probe", "queue", absent, ReadinessProbe, OtherAsker},
		{"so does anybody else", "curl/8.5.0", "queue", absent, ReadinessProbe, OtherAsker},
		{"even without a user agent", absent, "queue", absent, ReadinessProbe, OtherAsker},
		{"a hash makes no difference to it", "Knative-Activator-Probe", "queue", "h", ReadinessProbe, OtherAsker},

		{"the kubelet with another value is wrong", "kube-probe/1.31", "probe", "h", BadProbe, Kubelet},
		{"the kubelet without a value is wrong", "kube-probe/1.31", absent, absent, BadProbe, Kubelet},
		{"the kubelet with an empty value is wrong", "kube-probe/1.31", "", absent, BadProbe, Kubelet},
		{"the activator with another value is wrong", "Knative-Activator-Probe", "activator", absent, BadProbe, OtherAsker},
		{"the activator without a value is wrong", "Knative-Activator-Probe/2", absent, absent, BadProbe, OtherAsker},
		{"the autoscaler with another value is wrong", "Knative-Autoscaling-Probe", "Queue", absent, BadProbe, OtherAsker},

		{"a network probe has a hash", "Knative-Ingress-Probe", "probe", "override", NetworkProbe, OtherAsker},
		{"whoever sends it", "curl/8.5.0", "probe", "h", NetworkProbe, OtherAsker},
		{"even without a user agent", absent, "probe", "h", NetworkProbe, OtherAsker},
		{"without hash it is wrong", "Knative-Ingress-Probe", "probe", absent, HashlessProbe, OtherAsker},
		{"with an empty hash too", absent, "probe", "", HashlessProbe, OtherAsker},

		{"another value of another agent is traffic", "curl/8.5.0", "x", "h", Traffic, OtherAsker},
		{"the ingress's agent alone is traffic", "Knative-Ingress-Probe", absent, absent, Traffic, OtherAsker},
		{"kube-probe without a version is traffic", "kube-probe", absent, absent, Traffic, OtherAsker},
		{"values are case-sensitive: Probe", absent, "Probe", "h", Traffic, OtherAsker},
		{"values are case-sensitive: QUEUE", "curl/8.5.0", "QUEUE", "h", Traffic, OtherAsker},
		{"so are agents", "Kube-Probe/1.31", "x", absent, Traffic, OtherAsker},
		{"agents are prefixes, not substrings", "x kube-probe/1.31", absent, absent, Traffic, OtherAsker},
		{"a value with more behind it is another", absent, "queue2", absent, Traffic, OtherAsker},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			kind, asker := Classify(ProbeHeaders{field(c.agent), field(c.probe), field(c.hash)})
			if kind != c.kind || asker != c.asker {
				t.Errorf("kind %d of asker %d, want %d of %d", kind, asker, c.kind, c.asker)
			}
		})
	}
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	h := ProbeHeaders{field("kube-probe/1.31"), field("queue"), field("h")}
	if n := testing.AllocsPerRun(100, func() { Classify(h) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
