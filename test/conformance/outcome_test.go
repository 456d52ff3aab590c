package conformance

import (
	"net"
	"strings"
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// outcome is a test case. It has a probe, the decision that the kubelet must make, and
// the decision that the gate must make.
type outcome struct {
	name    string
	probe   v1.ProbeHandler
	timeout int32 // timeoutSeconds of the probe; 0 means 10, which is always enough

	ready bool // the kubelet's decision
	// cause is the reason why the gate is not ready, or "" if the gate is ready. In some
	// cases the reason depends on timing: a check may see a reset or a close, for
	// example. The field then has all possible reasons, separated by "|".
	cause string
	// differs says why the gate must decide the opposite of the kubelet's decision. It is
	// "" if both must make the same decision.
	differs string
}

const (
	ready    = true
	notReady = false
)

// outcomes returns all cases, with servers that run until the test ends.
func outcomes(t *testing.T) []outcome {
	secure := serveTLS(t, application(0, 0))
	app := serve(t, application(serve(t, application(0, 0)), secure))
	http2 := serveHTTP2(t, application(0, 0))
	closedPort := launch.FreePort(t)

	path := func(p string, headers ...v1.HTTPHeader) v1.ProbeHandler { return get(app, p, headers...) }
	raw := func(port int) v1.ProbeHandler { return get(port, "/") }
	host := v1.HTTPHeader{Name: "Host", Value: "probe.example"}

	serving := serveGRPC(t, healthOf(healthpb.HealthCheckResponse_SERVING))
	notServing := serveGRPC(t, healthOf(healthpb.HealthCheckResponse_NOT_SERVING))

	return []outcome{
		{name: "200", probe: path("/status/200"), ready: ready},
		{name: "204", probe: path("/status/204"), ready: ready},
		{name: "304", probe: path("/status/304"), ready: ready},
		{name: "399", probe: path("/status/399"), ready: ready},
		{name: "400", probe: path("/status/400"), cause: "status 400"},
		{name: "401", probe: path("/status/401"), cause: "status 401"},
		{name: "404", probe: path("/status/404"), cause: "status 404"},
		{name: "500", probe: path("/status/500"), cause: "status 500"},
		{name: "503", probe: path("/status/503"), cause: "status 503"},

		{name: "301 to a path with status 200", probe: path("/redirect/301?to=/status/200"), ready: ready},
		{name: "302 to a path with status 500", probe: path("/redirect/302?to=/status/500"), cause: "status 500"},
		{name: "303 to a path with status 404", probe: path("/redirect/303?to=/status/404"), cause: "status 404"},
		{name: "307 to a relative path", probe: path("/redirect/307?to=../status/204"), ready: ready},
		{name: "308 to the same host by its full URL", probe: path("/redirect/308?to=http://127.0.0.1:OTHER/status/503"), cause: "status 503"},
		{name: "302 to another port of the same host", probe: path("/redirect/302?to=http://127.0.0.1:OTHER/plain"), ready: ready},
		{name: "302 from http to https", probe: path("/redirect/302?to=https://127.0.0.1:SECURE/plain"), ready: ready},
		{name: "302 to another host with status 500", probe: path("/redirect/302?to=http://localhost:OTHER/status/500"), ready: ready},
		{name: "301 to another host that does not exist", probe: path("/redirect/301?to=http://nowhere.invalid/"), ready: ready},
		{name: "302 without a Location", probe: path("/redirect/302"), ready: ready},
		{name: "300 with a Location", probe: path("/redirect/300?to=/status/500"), ready: ready},
		{name: "302 to an invalid URL", probe: path("/redirect/302?to=http://%25zz/"), cause: "malformed"},
		{name: "9 redirects", probe: path("/chain/9"), ready: ready},
		{name: "10 redirects", probe: path("/chain/10"), ready: notReady,
			differs: "the gate follows 10 redirects as its documentation says; the kubelet gives up at the tenth"},
		{name: "11 redirects", probe: path("/chain/11"), cause: "redirects"},
		{name: "redirect loop", probe: path("/loop"), cause: "redirects"},
		{name: "redirect loop over two ports", probe: path("/redirect/302?to=http://127.0.0.1:OTHER/loop"), cause: "redirects"},

		{name: "path is sent as configured", probe: path("/a%2Fb//../c?d=%20e&f"), ready: ready},
		{name: "path with a bad escape", probe: path("/%zz"), ready: ready},
		{name: "path without a leading slash", probe: path("plain"), ready: ready},
		{name: "no path", probe: get(serveText(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), ""), ready: ready},
		{name: "user agent and method of the kubelet", probe: path("/kubelets-only"), ready: ready},
		{name: "configured Host", probe: path("/host/probe.example", host), ready: ready},
		{name: "configured Host survives a relative redirect", probe: path("/redirect/302?to=/host/probe.example", host), ready: ready},
		{name: "configured header", probe: path("/header?X-A=b", v1.HTTPHeader{Name: "x-a", Value: "b"}), ready: ready},
		{name: "configured header twice", probe: path("/header?X-A=b&X-A=c", v1.HTTPHeader{Name: "X-A", Value: "b"}, v1.HTTPHeader{Name: "X-A", Value: "c"}), ready: ready},
		{name: "configured User-Agent", probe: path("/header?User-Agent=mine", v1.HTTPHeader{Name: "User-Agent", Value: "mine"}), ready: ready},
		{name: "Accept of the kubelet", probe: path("/header?Accept=*/*"), ready: ready},
		{name: "configured empty Accept sends none", probe: path("/header?Accept=", v1.HTTPHeader{Name: "Accept", Value: ""}), ready: ready},
		{name: "no Accept-Encoding", probe: path("/header?Accept-Encoding="), ready: ready},

		{name: "big body", probe: path("/big"), ready: ready},
		{name: "endless body", probe: path("/endless"), ready: ready},
		{name: "big head", probe: path("/big-head"), ready: ready},
		{name: "head of 2 MiB", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n")), ready: ready, cause: "malformed",
			differs: "a head ends at 1 MiB for the gate, as in traffic; the kubelet reads 10 MiB"},
		{name: "103 before 200", probe: path("/early-hints"), ready: ready},
		{name: "unsolicited 101", probe: raw(serveText(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")), cause: "malformed"},
		{name: "HTTP/1.0 body delimited by close", probe: raw(serveText(t, "HTTP/1.0 200 OK\r\n\r\nfine")), ready: ready},
		{name: "status without a reason phrase", probe: raw(serveText(t, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")), ready: ready},
		{name: "lines that end in a bare LF", probe: raw(serveText(t, "HTTP/1.1 200 OK\nContent-Length: 0\n\n")), ready: ready},
		{name: "connection stays open after the response", probe: raw(serveUntilClose(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")), ready: ready},

		{name: "no response", probe: raw(serveUntilClose(t, "")), timeout: 1, cause: "timeout"},
		{name: "head that stalls", probe: raw(serveUntilClose(t, "HTTP/1.1 200 OK\r\n")), timeout: 1, cause: "timeout"},
		{name: "body that stalls", probe: raw(serveUntilClose(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")), timeout: 1, cause: "timeout"},
		{name: "refused", probe: raw(closedPort), cause: "refused"},
		{name: "reset", probe: raw(serveRaw(t, reset)), cause: "reset"},
		{name: "closed without a response", probe: raw(serveText(t, "")), cause: "closed"},
		{name: "closed within the head", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nContent-Le")), cause: "closed"},
		{name: "closed within the body", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine")), cause: "closed"},
		{name: "closed within a chunk", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfine")), cause: "closed"},
		{name: "not HTTP", probe: raw(serveText(t, "220 mail.example ESMTP\r\n")), cause: "malformed"},
		{name: "malformed status", probe: raw(serveText(t, "HTTP/1.1 2x0 OK\r\n\r\n")), cause: "malformed"},
		{name: "malformed length", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")), cause: "malformed"},
		{name: "malformed chunk", probe: raw(serveText(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nfine\r\n0\r\n\r\n")), cause: "malformed"},

		{name: "https with an untrusted certificate", probe: getTLS(secure, "/status/200"), ready: ready},
		{name: "https 500", probe: getTLS(secure, "/status/500"), cause: "status 500"},
		{name: "https to a port without TLS", probe: getTLS(app, "/status/200"), cause: "tls"},
		{name: "http to a port with TLS", probe: get(secure, "/status/200"), cause: "status 400"},
		{name: "https with HTTP/2 only", probe: getTLS(serveTLSHTTP2(t, application(0, 0)), "/status/200"), ready: ready, cause: "reset|closed",
			differs: "the gate offers only HTTP/1.1 over TLS; the kubelet offers both"},
		{name: "HTTP/2 without TLS", probe: get(http2, "/status/200"), ready: notReady,
			differs: "the gate detects h2c, as for traffic; the kubelet supports only HTTP/1"},
		{name: "500 over HTTP/2 without TLS", probe: get(http2, "/status/500"), cause: "status 500"},

		{name: "TCP accepted", probe: tcp(app), ready: ready},
		{name: "TCP accepted and closed", probe: tcp(serveConns(t, func(*net.TCPConn) {})), ready: ready},
		{name: "TCP refused", probe: tcp(closedPort), cause: "refused"},

		{name: "gRPC SERVING", probe: grpcHealth(serving), ready: ready},
		{name: "gRPC SERVING, other service NOT_SERVING", probe: grpcHealth(serving, "other"), cause: "not-serving"},
		{name: "gRPC NOT_SERVING", probe: grpcHealth(notServing), cause: "not-serving"},
		{name: "gRPC NOT_SERVING, other service SERVING", probe: grpcHealth(notServing, "other"), ready: ready},
		{name: "gRPC UNKNOWN", probe: grpcHealth(serveGRPC(t, healthOf(healthpb.HealthCheckResponse_UNKNOWN))), cause: "not-serving"},
		{name: "gRPC unknown service", probe: grpcHealth(serving, "unknown"), cause: "not-serving"},
		{name: "gRPC without a health service", probe: grpcHealth(serveGRPC(t, nil)), cause: "unimplemented"},
		{name: "gRPC without a response", probe: grpcHealth(serveUntilClose(t, "")), timeout: 1, cause: "timeout"},
		// The probe tells the server its deadline (grpc-timeout), so the server resets
		// the stream at the same time. The cause must still be the timeout.
		{name: "gRPC health service without a response", probe: grpcHealth(serveGRPC(t, silentHealth{})), timeout: 1, cause: "timeout"},
		// The kubelet tries to connect until its timeout.
		{name: "gRPC refused", probe: grpcHealth(closedPort), timeout: 1, cause: "refused"},
		{name: "gRPC to a port with HTTP/1", probe: grpcHealth(app), timeout: 1, cause: "malformed"},
		{name: "gRPC to a port with TLS", probe: grpcHealth(secure), timeout: 1, cause: "reset|closed"},
		{name: "HTTP GET to a gRPC port", probe: get(serving, "/"), cause: "status 415"},
	}
}

// get returns an httpGet probe. It sets the scheme to HTTP, because in a cluster the API
// server sets this default.
func get(port int, path string, headers ...v1.HTTPHeader) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
		Port: intstr.FromInt(port), Path: path, Scheme: v1.URISchemeHTTP, HTTPHeaders: headers,
	}}
}

func getTLS(port int, path string) v1.ProbeHandler {
	handler := get(port, path)
	handler.HTTPGet.Scheme = v1.URISchemeHTTPS
	return handler
}

func tcp(port int) v1.ProbeHandler {
	return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}}
}

// grpcHealth returns a gRPC probe of the named service. Without a name, the probe asks
// for the service "".
func grpcHealth(port int, service ...string) v1.ProbeHandler {
	handler := v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port)}}
	if len(service) > 0 {
		handler.GRPC.Service = &service[0]
	}
	return handler
}
