package field

import "testing"

func TestFieldsThatMayTrail(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Sum": true, "x": true, "ETag": true, "Server-Timing": true, "Grpc-Status": true, "Expires": true, "Date": true,
		"User-Agent": true, "Digest": true, "Knative-Serving": true, "Hos": true, "Kx": true,
		"Content-Length": false, "content-type": false, "Content-Anything": false, "Transfer-Encoding": false, "TE": false,
		"Trailer": false, "Connection": false, "Keep-Alive": false, "Upgrade": false, "Proxy-Connection": false,
		"Proxy-Authorization": false, "Proxy-Authenticate": false, "Authorization": false, "aUTHORIZATION": false,
		"Host": false, "hOST": false, "Expect": false, "Forwarded": false, "X-Forwarded-For": false, "X-Forwarded-Other": false,
		"K-Network-Probe": false, "K-Anything": false, "k-gate-outcome": false, "Knative-Serving-Tag": false,
		"Knative-Serving-Revision": false, "K-Original-Host": false,
	} {
		if got := MayTrail([]byte(name)); got != want {
			t.Errorf("MayTrail(%q) = %v", name, got)
		}
	}
}
