package field

import "testing"

func TestOnlyFieldsSetByThePlatformRequireATrustedSource(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Forwarded-For": true, "x-forwarded-": true, "X_Forwarded_For": true, "X-FORWARDED_proto": true, "x.forwarded.for": true,
		"Forwarded": true, "X-Real-IP": true, "X_Real_IP": true, "x-real_ip": true, "K-Proxy-Request": true, "K_Proxy_Request": true,
		"k-original_host": true, "X-Request-Start": true, "X_Request-Start": true, "x-request_start": true, "X_REQUEST_START": true, "Knative-Serving-Tag": true, "knative_serving_anything": true, "KNATIVE-SERVING-": true,
		"X-Forwarded": false, "X-Real-IP2": false, "X-Request-Started": false, "X-Request-ID": false, "Forwarded-For": false, "For_warded": false, "K-Proxy-Requests": false, "K-Network-Probe": false,
		"Knative-Servin": false, "XForwardedFor": false, "": false, "x": false, "X-Other": false, "K-Gate-Outcome": false, "X0forwarded0for": false,
	} {
		if got := IsTrustedOnly([]byte(name)); got != want {
			t.Errorf("IsTrustedOnly(%q) = %v", name, got)
		}
	}
}

func TestFramingFieldsAreNotAllowedInTrailers(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Sum": true, "x": true, "ETag": true, "Server-Timing": true, "Grpc-Status": true, "Expires": true, "Date": true,
		"User-Agent": true, "Digest": true, "Knative-Serving": true, "Hos": true, "Kx": true,
		"Content-Length": false, "content-type": false, "Content-Anything": false, "Transfer-Encoding": false, "TE": false,
		"Trailer": false, "Connection": false, "Keep-Alive": false, "Upgrade": false, "Proxy-Connection": false,
		"Proxy-Authorization": false, "Proxy-Authenticate": false, "Authorization": false, "aUTHORIZATION": false,
		"Host": false, "hOST": false, "Expect": false, "Forwarded": false, "X-Forwarded-For": false, "X-Forwarded-Other": false,
		"K-Network-Probe": false, "K-Anything": false, "k-gate-outcome": false, "Knative-Serving-Tag": false,
		"Knative-Serving-Revision": false, "K-Original-Host": false, "X_Forwarded_For": false, "X-Real-IP": false, "x_real_ip": false,
		"K_Original_Host": false, "knative_serving_tag": false, "X_Sum": true,
		"X-Request-Start": false, "x_request_start": false, "X-Request-ID": true,
	} {
		if got := IsAllowedTrailer([]byte(name)); got != want {
			t.Errorf("IsAllowedTrailer(%q) = %v", name, got)
		}
	}
}
