package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/metrics/otlp/otlptest"
)

func sender(t *testing.T, protocol, endpoint string) Sender {
	t.Helper()
	s, err := NewSender(Traces, Destination{Protocol: protocol, Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAMessageIsPostedToAnOTLPCollectorOverHTTP(t *testing.T) {
	c := otlptest.HTTP(t, func(context.Context, otlptest.Message) otlptest.Response {
		return otlptest.Response{Body: []byte("yes")}
	})
	s := sender(t, ProtocolHTTP, strings.Replace(c.URL, "http://", "http://user:word@", 1))
	response, err := s.Send(t.Context(), []byte("message"))
	if err != nil || string(response) != "yes" {
		t.Fatalf("%q, %v", response, err)
	}
	m := c.Next(t)
	if m.Path != "/v1/traces" || string(m.Body) != "message" || m.Proto != "HTTP/1.1" {
		t.Errorf("the collector got %q at %s over %s", m.Body, m.Path, m.Proto)
	}
	for key, want := range map[string]string{"Content-Type": "application/x-protobuf", "Authorization": "Basic dXNlcjp3b3Jk"} {
		if got := m.Header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestAMessageIsOneUnaryCall(t *testing.T) {
	c := otlptest.GRPC(t, func(context.Context, otlptest.Message) otlptest.Response {
		return otlptest.Response{Body: []byte("yes")}
	})
	s := sender(t, ProtocolGRPC, c.URL+"/a/path/means/nothing?a=b")
	for range 2 { // two calls; the second call reuses the connection of the first call
		response, err := s.Send(t.Context(), []byte("message"))
		if err != nil || string(response) != "yes" {
			t.Fatalf("%q, %v", response, err)
		}
		m := c.Next(t)
		if m.Path != Traces.Method || string(m.Body) != "message" || m.Proto != "HTTP/2.0" {
			t.Errorf("the collector got %q at %s over %s", m.Body, m.Path, m.Proto)
		}
		if m.Header.Get("Content-Type") != "application/grpc" || m.Header.Get("Te") != "trailers" {
			t.Errorf("header %v", m.Header)
		}
	}
}

func TestAnHTTPSEndpointIsCalledOverTLS(t *testing.T) {
	c := otlptest.GRPCOverTLS(t)
	s := sender(t, ProtocolGRPC, c.Listener.Addr().String())
	if _, err := s.Send(t.Context(), []byte("message")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("an untrusted certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.Certificate())
	s = sender(t, ProtocolGRPC, c.URL)
	s.(*grpcSender).client.tls.RootCAs = roots
	if _, err := s.Send(t.Context(), []byte("message")); err != nil {
		t.Fatal(err)
	}
	if m := c.Next(t); string(m.Body) != "message" || m.Proto != "HTTP/2.0" {
		t.Errorf("the collector got %q over %s", m.Body, m.Proto)
	}
}

func TestAnHTTPStatusDeterminesWhetherToRetry(t *testing.T) {
	for _, c := range []struct {
		status    int
		after     string
		temporary bool
		wait      time.Duration
	}{
		{400, "", false, 0}, {404, "9", false, 0}, {307, "", false, 0}, {500, "", false, 0},
		{429, "7", true, 7 * time.Second}, {502, "", true, 0}, {503, "later", true, 0}, {504, "0", true, 0},
	} {
		collector := otlptest.HTTP(t, func(context.Context, otlptest.Message) otlptest.Response {
			return otlptest.Response{Status: c.status, Header: http.Header{"Retry-After": {c.after}, "Location": {"/elsewhere"}}}
		})
		_, err := sender(t, ProtocolHTTP, collector.URL).Send(t.Context(), []byte("message"))
		var status *StatusError
		if !errors.As(err, &status) || status.Temporary != c.temporary || status.RetryAfter != c.wait {
			t.Errorf("%d: %+v", c.status, err)
		}
	}
}

func TestAGRPCStatusDeterminesWhetherToRetry(t *testing.T) {
	for _, c := range []struct {
		response  otlptest.Response
		want      string
		temporary bool
	}{
		{otlptest.Response{GRPCStatus: "14", GRPCMessage: "no%20room"}, "gRPC status 14: no room", true},
		{otlptest.Response{GRPCStatus: "14", HeadOnly: true}, "gRPC status 14", true},
		{otlptest.Response{GRPCStatus: "8"}, "gRPC status 8", false},
		{otlptest.Response{GRPCStatus: "12", GRPCMessage: "unknown service", HeadOnly: true}, "gRPC status 12: unknown service", false},
		{otlptest.Response{GRPCStatus: "x"}, "no gRPC status", false},
		{otlptest.Response{Status: 503}, "HTTP status 503", true},
		{otlptest.Response{Status: 404}, "HTTP status 404", false},
	} {
		collector := otlptest.GRPC(t, func(context.Context, otlptest.Message) otlptest.Response { return c.response })
		_, err := sender(t, ProtocolGRPC, collector.URL).Send(t.Context(), []byte("message"))
		var status *StatusError
		if !errors.As(err, &status) || status.Temporary != c.temporary || status.Status != c.want {
			t.Errorf("%+v: %v", c.response, err)
		}
	}
}

func TestACallToAHangingCollectorTimesOut(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB, func(context.Context, otlptest.Message) otlptest.Response) *otlptest.Collector{
		ProtocolHTTP: otlptest.HTTP, ProtocolGRPC: otlptest.GRPC,
	} {
		c := start(t, otlptest.Hang)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			c.Next(t)
			cancel()
		}()
		if _, err := sender(t, protocol, c.URL).Send(ctx, []byte("message")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", protocol, err)
		}
		<-gone
	}
}

func TestTheResponseOfAnOTLPCollectorIsTruncatedAtALimit(t *testing.T) {
	c := otlptest.HTTP(t, func(context.Context, otlptest.Message) otlptest.Response {
		return otlptest.Response{Body: bytes.Repeat([]byte("x"), 10*maxResponse)}
	})
	response, err := sender(t, ProtocolHTTP, c.URL).Send(t.Context(), []byte("message"))
	if err != nil || len(response) != maxResponse {
		t.Errorf("%d bytes, %v", len(response), err)
	}
}

func TestOptionsReachTheCollector(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB, func(context.Context, otlptest.Message) otlptest.Response) *otlptest.Collector{
		ProtocolHTTP: otlptest.HTTP, ProtocolGRPC: otlptest.GRPC,
	} {
		c := start(t, nil)
		message := bytes.Repeat([]byte("message "), 1000)
		s, err := NewSender(Metrics, Destination{Protocol: protocol, Endpoint: c.URL, Options: Options{
			IsExact: true, Gzip: true, Timeout: time.Hour, Headers: []Header{
				{"x-tenant", "a b"}, {"User-Agent", "mine"}, {"content-type", "text/plain"}, {"Content-Length", "1"}, {"grpc-encoding", "br"}, {"te", "gzip"}, {"upgrade", "x"}, {"connection", "x"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if s.Timeout() != time.Hour {
			t.Errorf("%s: an attempt may take %v", protocol, s.Timeout())
		}
		if _, err := s.Send(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		m := c.Next(t)
		want := map[string]string{"X-Tenant": "a b", "User-Agent": "mine", "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
		path := "/"
		if protocol == ProtocolGRPC {
			want = map[string]string{"X-Tenant": "a b", "User-Agent": "mine", "Content-Type": "application/grpc", "Grpc-Encoding": "gzip", "Te": "trailers"}
			path = Metrics.Method
		}
		for name, value := range want {
			if got := m.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", protocol, name, got, value)
			}
		}
		if protocol == ProtocolGRPC && m.Header.Get("Upgrade")+m.Header.Get("Connection") != "" {
			t.Errorf("header %v", m.Header)
		}
		if m.Path != path || !bytes.Equal(m.Body, message) {
			t.Errorf("%s: %d bytes at %s", protocol, len(m.Body), m.Path)
		}
	}
}

func TestACollectorIsVerifiedWithTheGivenCertificates(t *testing.T) {
	plain := otlptest.HTTP(t, nil)
	secured := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(secured.Close)
	overGRPC := otlptest.GRPCOverTLS(t)
	for protocol, server := range map[string]*httptest.Server{ProtocolHTTP: secured, ProtocolGRPC: overGRPC.Server} {
		roots := x509.NewCertPool()
		for _, trusted := range []bool{false, true} {
			if trusted {
				roots.AddCert(server.Certificate())
			}
			s, err := NewSender(Traces, Destination{Protocol: protocol, Endpoint: server.Listener.Addr().String(), Options: Options{RootCAs: roots}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			if _, err := s.Send(t.Context(), []byte("message")); (err == nil) != trusted {
				t.Errorf("%s, trusted %t: %v", protocol, trusted, err)
			}
		}
	}
}

func TestACollectorThatRequiresAClientCertificateGetsIt(t *testing.T) {
	plain := otlptest.HTTP(t, nil)
	secured := httptest.NewUnstartedServer(plain.Config.Handler)
	secured.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secured.Certificate())
	for _, certificates := range [][]tls.Certificate{nil, secured.TLS.Certificates} {
		s, err := NewSender(Traces, Destination{Protocol: ProtocolHTTP, Endpoint: secured.URL, Options: Options{RootCAs: roots, Certificates: certificates}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if _, err := s.Send(t.Context(), []byte("message")); (err == nil) != (certificates != nil) {
			t.Errorf("%d certificates: %v", len(certificates), err)
		}
	}
}

func TestAnAttemptEndsWithItsTimeout(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB, func(context.Context, otlptest.Message) otlptest.Response) *otlptest.Collector{
		ProtocolHTTP: otlptest.HTTP, ProtocolGRPC: otlptest.GRPC,
	} {
		c := start(t, otlptest.Hang)
		s, err := NewSender(Traces, Destination{Protocol: protocol, Endpoint: c.URL, Options: Options{Timeout: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		// The timeout may also expire while the sender connects.
		if _, err := sendOnce(t.Context(), s, []byte("message")); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
