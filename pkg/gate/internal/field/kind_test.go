package field

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// kinds maps field names to the kinds that the function Of must return. The fields
// K-Gate-* are not in the map, because mapKind handles them. The kinds that are declared
// after Gate, such as WebSocketKey, are not tested here.
var kinds = map[string]Kind{
	"host": Host, "content-length": ContentLength, "transfer-encoding": TransferEncoding,
	"connection": Connection, "keep-alive": HopByHop, "proxy-connection": HopByHop,
	"proxy-authenticate": HopByHop, "proxy-authorization": HopByHop, "te": TE, "upgrade": Upgrade,
	"expect": Expect, "user-agent": UserAgent, "x-forwarded-for": ForwardedFor,
	"x-forwarded-proto": ForwardedProto, "x-forwarded-host": ForwardedHost, "forwarded": Forwarded,
	"k-original-host": OriginalHost, "k-network-probe": NetworkProbe, "k-network-hash": NetworkHash,
	"k-proxy-request": ProxyRequest, "knative-serving-namespace": RevisionRouting,
	"knative-serving-revision": RevisionRouting, "trailer": Trailer, "date": Date,
	"knative-serving-tag": ServingTag, "knative-serving-default-route": DefaultRoute,
	"traceparent": Trace, "b3": Trace, "x-b3-traceid": Trace, "x-b3-spanid": Trace,
	"x-b3-parentspanid": Trace, "x-b3-sampled": Trace, "x-b3-flags": Trace, "tracestate": TraceState,
	"sec-websocket-key": WebSocketKey, "sec-websocket-accept": WebSocketAccept,
	"endpoint-load-metrics-format": LoadFormat, "endpoint-load-metrics": LoadReport,
	"endpoint-load-metrics-bin": LoadReport,
}

func mapKind(name string) Kind {
	name = lower(name)
	if strings.HasPrefix(name, "k-gate-") {
		return Gate
	}
	return kinds[name]
}

func TestTheKindOfAFieldNameIsFoundRegardlessOfCase(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(name string) {
		if got, want := Of([]byte(name)), mapKind(name); got != want {
			t.Errorf("Of(%q) = %d, want %d", name, got, want)
		}
	}
	for name := range kinds {
		for range 200 {
			b := []byte(name)
			for i, c := range b {
				if c >= 'a' && c <= 'z' && rng.IntN(2) == 0 {
					b[i] = c - 0x20
				}
			}
			check(string(b))
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			check(string(b)) // one bit differs
			check(string(b[:rng.IntN(len(b))]))
			check(string(b) + "x")
		}
	}
	for n := range 30 {
		check("K-Gate-" + strings.Repeat("x", n))
		check("k-gATE-" + strings.Repeat("-", n))
		check("k-gate" + strings.Repeat("x", n))
		check(strings.Repeat("k", n))
	}
	check("")
}

func TestTheReferenceNamesAFieldOfEveryKind(t *testing.T) {
	seen := map[Kind]bool{Other: true, Gate: true}
	for _, k := range kinds {
		seen[k] = true
	}
	for k := Other; k <= LoadReport; k++ {
		if !seen[k] {
			t.Errorf("no name of kind %d is tested", k)
		}
	}
}

// lower converts A to Z to lower case and no other characters.
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 0x20
		}
	}
	return string(b)
}
