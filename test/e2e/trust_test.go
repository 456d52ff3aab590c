package e2e

import (
	"net"
	"strings"
	"testing"
)

// trustedFields are request fields. Only a trusted peer may set them, so the gate removes or
// replaces them in the requests of other peers. X-Other is the exception: any peer may
// set it.
var trustedFields = []string{
	"K-Proxy-Request: activator", "K-Original-Host: other.test", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https",
	"X-Forwarded-Host: a.test", "X-Forwarded-Port: 443", "Forwarded: for=203.0.113.9", "X-Other: kept",
	"X_Forwarded_For: 203.0.113.9", "X-Real-IP: 203.0.113.9", "x_real-ip: 203.0.113.9", "K_Original_Host: other.test", "Knative-Serving-Tag: blue",
	"X-Request-Start: t=1", "X_Request_Start: t=1", "x-request_start: t=1",
}

// peerProbes are the fields of probe requests. If the peer is trusted, the gate sends a
// local reply with this status. If not, the gate forwards the request.
var peerProbes = []struct {
	fields []string
	status int
}{
	{[]string{"K-Network-Probe: queue"}, 200},
	{[]string{"K-Network-Probe: probe", "K-Network-Hash: h"}, 200},
	{[]string{"K-Network-Probe: probe"}, 400},
	{[]string{"User-Agent: kube-probe/1.33", "K-Network-Probe: queue"}, 200},
	{[]string{"User-Agent: Knative-Activator-Probe"}, 400},
	{[]string{"User-Agent: Knative-Autoscaling-Probe", "K-Network-Probe: queue"}, 200},
}

func TestForwardedFieldsOfUntrustedSourcesAreIgnored(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g, _, page := startObservedGate(t, k, "UPSTREAM_PROTOCOL=http1", "TRUSTED_SOURCES=203.0.113.0/24,2001:db8::1", "REQUEST_START=true")
	_, port, _ := net.SplitHostPort(g.addr)
	client := h2Client(t, nil)
	// seen returns the head that the container receives, over HTTP/1 or HTTP/2.
	seen := func(http2 bool, address string, fields []string) response {
		t.Helper()
		addr := net.JoinHostPort(address, port)
		if http2 {
			reply := h2Start(t, client, "http://"+addr+"/", fields...)
			p := k.accept()
			head := parseHead(t, p.head())
			p.send(okClose)
			p.close()
			(<-reply).is(t, 200, "ok")
			return head
		}
		c := dialAddr(t, addr)
		defer c.close()
		c.send(request("GET", "/", fields...))
		p := k.accept()
		head := parseHead(t, p.head())
		p.send(okClose)
		p.close()
		c.response("GET").is(200, "ok")
		return head
	}
	proxied := 0.0
	for _, http2 := range []bool{false, true} {
		head := seen(http2, "127.0.0.1", trustedFields)
		proxied++
		for _, field := range [][2]string{
			{"Host", "other.test"}, {"K-Proxy-Request", "activator"}, {"X-Forwarded-For", "203.0.113.9, 127.0.0.1"}, {"X-Forwarded-Proto", "https"},
			{"X-Forwarded-Host", "a.test"}, {"X-Forwarded-Port", "443"}, {"Forwarded", "for=203.0.113.9"}, {"X-Other", "kept"},
			{"X_Forwarded_For", "203.0.113.9"}, {"X-Real-IP", "203.0.113.9"}, {"x_real-ip", "203.0.113.9"}, {"K_Original_Host", "other.test"}, {"Knative-Serving-Tag", "blue"},
			{"X-Request-Start", "t=1"}, {"X_Request_Start", "t=1"},
		} {
			head.field(field[0], field[1])
		}
		for _, address := range addressesOutside(t) {
			host := "gate.test"
			if http2 {
				host = net.JoinHostPort(address, port)
			}
			head = seen(http2, address, trustedFields)
			head.lacks("K-Proxy-Request", "K-Original-Host", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded",
				"X_Forwarded_For", "X-Real-IP", "x_real-ip", "K_Original_Host", "Knative-Serving-Tag", "X_Request_Start", "x-request_start")
			if starts := head.all("X-Request-Start"); len(starts) != 1 || !strings.HasPrefix(starts[0], "t=") || starts[0] == "t=1" {
				t.Errorf("X-Request-Start: %q from %s", starts, address)
			}
			head.field("X-Forwarded-For", address)
			head.field("Host", host)
			head.field("X-Other", "kept")
			for _, probe := range peerProbes {
				head = seen(http2, address, probe.fields)
				head.field("X-Forwarded-For", address)
			}
		}
	}
	for _, probe := range peerProbes {
		c := dial(t, g)
		if a := c.get("/", probe.fields...); a.status != probe.status {
			t.Errorf("%q from the loopback: status %d, want %d", probe.fields, a.status, probe.status)
		}
		c.close()
	}
	eventually(t, "the figures", func() bool { return figures(g, page)["queuegate_proxied_requests_total"] == proxied })
}

func TestForwardedFieldsOfTrustedSourcesAreUsed(t *testing.T) {
	t.Parallel()
	for _, address := range addressesOutside(t) {
		k := startContainer(t)
		g := startGate(t, k, "TRUSTED_SOURCES="+address)
		_, port, _ := net.SplitHostPort(g.addr)
		c := dialAddr(t, net.JoinHostPort(address, port))
		c.get("/", "K-Network-Probe: queue").is(200, "queue")
		c.send(request("GET", "/", trustedFields...))
		head := parseHead(t, k.accept().head())
		head.field("Host", "other.test")
		head.field("X-Forwarded-For", "203.0.113.9, "+address)
		c.close()
	}
}
