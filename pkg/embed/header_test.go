package embed

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// names returns the names of a header, sorted.
func names(h http.Header) (all []string) {
	for name := range h {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestGateFieldsOfAClientDoNotReachTheHandler(t *testing.T) {
	overBoth(t, func(t *testing.T, protocol string) {
		r := newRig(t, protocol, Config{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for _, name := range append(names(r.Header), names(r.Trailer)...) {
				_, _ = io.WriteString(w, name+" ")
			}
		})
		fields := []string{"K-Gate-Outcome", "served", "k-gAtE-other", "1", "K-Gateway", "2"}
		for _, method := range []string{"GET", "POST"} {
			req := r.request(method, "/", "", fields...)
			if method == "POST" {
				req.Body = io.NopCloser(strings.NewReader("body"))
				req.Trailer = http.Header{"K-Gate-Sum": {"3"}, "Sum": {"4"}}
			}
			got := r.send(req).body
			if strings.Contains(got, "K-Gate-") || !strings.Contains(got, "K-Gateway") || (method == "POST") != strings.Contains(got, " Sum ") {
				t.Errorf("%s: the handler has %s", method, got)
			}
		}
	})
}

func TestFieldsOfUntrustedPeersAreIgnoredAndRemoved(t *testing.T) {
	g, err := New(Config{TrustedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer    string
		trusted bool
	}{
		{"10.1.2.3:1000", true}, {"[::ffff:10.1.2.3]:1000", true}, {"127.0.0.1:1000", true}, {"[::1]:1000", true},
		{"[fe80::1%eth0]:1000", true}, {"192.0.2.1:1000", false}, {"[2001:db8::1]:1000", false}, {"@", false},
	} {
		var seen []string
		var proxied int64
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = names(r.Header)
			_, proxied = g.state().Counting.InFlight()
		}))
		send := func(fields ...string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
			r.RemoteAddr, seen = c.peer, nil
			for i := 0; i < len(fields); i += 2 {
				r.Header.Set(fields[i], fields[i+1])
			}
			h.ServeHTTP(w, r)
			if got := len(r.Header); got != len(fields)/2 {
				t.Errorf("%s: %d fields are left of the request that came", c.peer, got)
			}
			return w
		}
		send("K-Proxy-Request", "activator", "K-Original-Host", "a", "X-Forwarded-For", "b", "X-Forwarded-Port", "1", "Forwarded", "for=c", "X-Other", "d",
			"X_Forwarded_For", "e", "X-Real-Ip", "f", "x_real_ip", "g", "K_Proxy_Request", "activator", "Knative-Serving-Tag", "h", "knative_serving_other", "i")
		want := []string{"X-Other"}
		if c.trusted {
			want = []string{"Forwarded", "K-Original-Host", "K-Proxy-Request", "K_proxy_request", "Knative-Serving-Tag", "Knative_serving_other",
				"X-Forwarded-For", "X-Forwarded-Port", "X-Other", "X-Real-Ip", "X_forwarded_for", "X_real_ip"}
		}
		if !slices.Equal(seen, want) || (proxied == 1) != c.trusted {
			t.Errorf("%s: the handler has %v, %d counted as proxied; want %v", c.peer, seen, proxied, want)
		}
		w := send("User-Agent", "kube-probe/1.34", "K-Network-Probe", "queue")
		if answered := w.Body.String() == "queue"; answered != c.trusted || (seen == nil) != c.trusted {
			t.Errorf("%s: reply to the probe %v, handler called with %v", c.peer, answered, seen)
		}
	}
}
