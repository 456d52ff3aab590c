package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Sender delivers messages to a collector. It may be used concurrently.
type Sender interface {
	// Send makes one attempt and returns the collector's response. If the response
	// reports a failure, the error is a *StatusError.
	Send(ctx context.Context, message []byte) (response []byte, err error)
	// Timeout returns the maximum duration of an attempt, which is above 0.
	Timeout() time.Duration
	// Close closes idle connections. The Sender can still be used.
	Close()
}

// Signal is a type of message: metrics or traces.
type Signal struct {
	Path   string // path over HTTP
	Method string // method over gRPC
}

// The signals that the gate sends.
var (
	Traces  = Signal{"/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}
	Metrics = Signal{"/v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"}
)

// The protocols, by the names that Knative uses.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// Destination describes where messages are sent.
type Destination struct {
	Protocol string // ProtocolHTTP or ProtocolGRPC
	Endpoint string // format as in ParseEndpoint; over gRPC, the path is ignored
	Insecure bool   // an endpoint without a scheme means plaintext
	Options
}

// Options are optional settings of a Destination.
type Options struct {
	// IsExact means that messages over HTTP are sent to exactly the path of Endpoint. An
	// empty path then means "/". If IsExact is false, the default path of the Signal
	// replaces an empty path and the path "/". For gRPC, IsExact has no effect.
	IsExact bool
	Headers []Header       // added to each message
	Timeout time.Duration  // timeout of one attempt; 0 = RequestTimeout
	Gzip    bool           // compress messages
	RootCAs *x509.CertPool // CAs for the collector's certificate; nil = the system's CAs

	Certificates []tls.Certificate // client certificates; at most one is sent
}

func (o *Options) tlsConfig() *tls.Config {
	return &tls.Config{RootCAs: o.RootCAs, Certificates: o.Certificates}
}

// Header is a field that is added to each message. It may replace User-Agent, but not
// the fields that OTLP and gRPC require.
type Header struct{ Name, Value string }

func (o *Options) timeout() time.Duration { return cmp.Or(o.Timeout, RequestTimeout) }

// connectionFields are fields that Options.Headers cannot set, because net/http sets
// them or HTTP/2 forbids them (RFC 9113 section 8.2.2).
var connectionFields = []string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade",
}

// addTo adds the configured headers to r. It skips a header whose name is in
// connectionFields or in the parameter reserved.
func (o *Options) addTo(r *http.Request, reserved ...string) {
	for _, h := range o.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if !slices.Contains(reserved, name) && !slices.Contains(connectionFields, name) {
			r.Header[name] = []string{h.Value}
		}
	}
}

func gzipped(message []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // no error, because the level is valid
	_, _ = w.Write(message)                         // no error, because a Buffer never fails
	_ = w.Close()
	return b.Bytes()
}

// NewSender returns a Sender. The Sender connects when it sends its first message.
func NewSender(s Signal, d Destination) (Sender, error) {
	path := s.Path
	if d.IsExact {
		path = "/"
	}
	u, err := ParseEndpoint(d.Endpoint, path, d.Insecure)
	if err != nil {
		return nil, err
	}
	switch d.Protocol {
	case ProtocolHTTP:
		return newHTTP(u, "application/x-protobuf", d.Options), nil
	case ProtocolGRPC:
		return newGRPC(u, s.Method, d.Options), nil
	}
	return nil, fmt.Errorf("protocol %q: want %s or %s", d.Protocol, ProtocolHTTP, ProtocolGRPC)
}

// RequestTimeout is the default timeout of an attempt.
const RequestTimeout = 10 * time.Second
