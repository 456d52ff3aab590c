package gate

import "testing"

// headerValue returns a header value; nil = absent.
func headerValue(s string) []byte {
	if s == absent {
		return nil
	}
	return []byte(s)
}

const absent = "\x00"

func TestProbesAreDistinguishedFromTraffic(t *testing.T) {
	for _, c := range []struct {
		sentence           string
		agent, probe, hash string
		kind               Kind
		caller             Prober
	}{
		{"no field at all is traffic", absent, absent, absent, Traffic, AnyProber},
		{"a hash alone is traffic", absent, absent, "h", Traffic, AnyProber},
		{"any user agent is traffic", "curl/8.5.0", absent, absent, Traffic, AnyProber},
		{"empty fields are traffic", "", "", "", Traffic, AnyProber},

		{"the kubelet asks for readiness", "kube-probe/1.31", "queue", absent, ReadinessProbe, Kubelet},
		{"so does the activator", "Knative-Activator-Probe", "queue", absent, ReadinessProbe, Platform},
		{"so does the autoscaler", "Knative-Autoscaling-Probe", "queue", absent, ReadinessProbe, Platform},
		{"so does anybody else", "curl/8.5.0", "queue", absent, ReadinessProbe, AnyProber},
		{"even without a user agent", absent, "queue", absent, ReadinessProbe, AnyProber},
		{"a hash makes no difference to it", "Knative-Activator-Probe", "queue", "h", ReadinessProbe, Platform},

		{"the kubelet with another value is wrong", "kube-probe/1.31", "probe", "h", BadProbe, Kubelet},
		{"the kubelet without a value is wrong", "kube-probe/1.31", absent, absent, BadProbe, Kubelet},
		{"the kubelet with an empty value is wrong", "kube-probe/1.31", "", absent, BadProbe, Kubelet},
		{"the activator with another value is wrong", "Knative-Activator-Probe", "activator", absent, BadProbe, Platform},
		{"the activator without a value is wrong", "Knative-Activator-Probe/2", absent, absent, BadProbe, Platform},
		{"the autoscaler with another value is wrong", "Knative-Autoscaling-Probe", "Queue", absent, BadProbe, Platform},

		{"a network probe has a hash", "Knative-Ingress-Probe", "probe", "override", NetworkProbe, AnyProber},
		{"from any caller", "curl/8.5.0", "probe", "h", NetworkProbe, AnyProber},
		{"even without a user agent", absent, "probe", "h", NetworkProbe, AnyProber},
		{"without hash it is wrong", "Knative-Ingress-Probe", "probe", absent, HashlessProbe, AnyProber},
		{"with an empty hash too", absent, "probe", "", HashlessProbe, AnyProber},

		{"another value of another agent is traffic", "curl/8.5.0", "x", "h", Traffic, AnyProber},
		{"the ingress's agent alone is traffic", "Knative-Ingress-Probe", absent, absent, Traffic, AnyProber},
		{"kube-probe without a version is traffic", "kube-probe", absent, absent, Traffic, AnyProber},
		{"values are case-sensitive: Probe", absent, "Probe", "h", Traffic, AnyProber},
		{"values are case-sensitive: QUEUE", "curl/8.5.0", "QUEUE", "h", Traffic, AnyProber},
		{"so are agents", "Kube-Probe/1.31", "x", absent, Traffic, AnyProber},
		{"agents are prefixes, not substrings", "x kube-probe/1.31", absent, absent, Traffic, AnyProber},
		{"a value with a suffix is different", absent, "queue2", absent, Traffic, AnyProber},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			kind, caller := Classify(ProbeHeaders{headerValue(c.agent), headerValue(c.probe), headerValue(c.hash)})
			if kind != c.kind || caller != c.caller {
				t.Errorf("kind %d of caller %d, want %d of %d", kind, caller, c.kind, c.caller)
			}
		})
	}
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	h := ProbeHeaders{headerValue("kube-probe/1.31"), headerValue("queue"), headerValue("h")}
	if n := testing.AllocsPerRun(100, func() { Classify(h) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
