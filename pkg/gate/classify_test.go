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
		name               string
		agent, probe, hash string
		kind               Kind
		caller             Prober
	}{
		{"no field at all is traffic", absent, absent, absent, Traffic, AnyProber},
		{"a hash alone is traffic", absent, absent, "h", Traffic, AnyProber},
		{"any user agent is traffic", "curl/8.5.0", absent, absent, Traffic, AnyProber},
		{"empty fields are traffic", "", "", "", Traffic, AnyProber},

		{"the kubelet asks for readiness", "kube-probe/1.31", "queue", absent, ReadinessProbe, Kubelet},
		{"the activator asks for readiness", "Knative-Activator-Probe", "queue", absent, ReadinessProbe, Platform},
		{"the autoscaler asks for readiness", "Knative-Autoscaling-Probe", "queue", absent, ReadinessProbe, Platform},
		{"any client may ask for readiness", "curl/8.5.0", "queue", absent, ReadinessProbe, AnyProber},
		{"a readiness probe without a user agent", absent, "queue", absent, ReadinessProbe, AnyProber},
		{"a readiness probe with a hash", "Knative-Activator-Probe", "queue", "h", ReadinessProbe, Platform},

		{"the kubelet with another value is wrong", "kube-probe/1.31", "probe", "h", BadProbe, Kubelet},
		{"the kubelet without a value is wrong", "kube-probe/1.31", absent, absent, BadProbe, Kubelet},
		{"the kubelet with an empty value is wrong", "kube-probe/1.31", "", absent, BadProbe, Kubelet},
		{"the activator with another value is wrong", "Knative-Activator-Probe", "activator", absent, BadProbe, Platform},
		{"the activator without a value is wrong", "Knative-Activator-Probe/2", absent, absent, BadProbe, Platform},
		{"the autoscaler with another value is wrong", "Knative-Autoscaling-Probe", "Queue", absent, BadProbe, Platform},

		{"a network probe has a hash", "Knative-Ingress-Probe", "probe", "override", NetworkProbe, AnyProber},
		{"a network probe of any caller", "curl/8.5.0", "probe", "h", NetworkProbe, AnyProber},
		{"a network probe without a user agent", absent, "probe", "h", NetworkProbe, AnyProber},
		{"a network probe without a hash is wrong", "Knative-Ingress-Probe", "probe", absent, HashlessProbe, AnyProber},
		{"a network probe with an empty hash is wrong", absent, "probe", "", HashlessProbe, AnyProber},

		{"another value of another agent is traffic", "curl/8.5.0", "x", "h", Traffic, AnyProber},
		{"the ingress's agent alone is traffic", "Knative-Ingress-Probe", absent, absent, Traffic, AnyProber},
		{"kube-probe without a version is traffic", "kube-probe", absent, absent, Traffic, AnyProber},
		{"values are case-sensitive: Probe", absent, "Probe", "h", Traffic, AnyProber},
		{"values are case-sensitive: QUEUE", "curl/8.5.0", "QUEUE", "h", Traffic, AnyProber},
		{"user agents are case-sensitive", "Kube-Probe/1.31", "x", absent, Traffic, AnyProber},
		{"agents are prefixes, not substrings", "x kube-probe/1.31", absent, absent, Traffic, AnyProber},
		{"a value with a suffix is different", absent, "queue2", absent, Traffic, AnyProber},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, caller := Classify(ProbeHeaders{headerValue(c.agent), headerValue(c.probe), headerValue(c.hash)})
			if kind != c.kind || caller != c.caller {
				t.Errorf("kind %d of prober %d, want %d of %d", kind, caller, c.kind, c.caller)
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
