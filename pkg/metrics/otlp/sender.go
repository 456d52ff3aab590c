package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Sender delivers messages to one collector. It may be used by several
// goroutines at once.
type Sender interface {
	// Send makes one attempt and returns the collector's response. The error is
	// a *StatusError for a response other than success.
	Send(ctx context.Context, message []byte) (response []byte, err error)
	// Timeout bounds one attempt; it is above 0.
	Timeout() time.Duration
	// Close drops idle connections. The Sender stays usable.
	Close()
}

// Signal is what a message is about, and where OTLP wants it.
type Signal struct {
	Path   string // over HTTP
	Method string // over gRPC
}

// The signals that the gate has.
var (
	Traces  = Signal{"/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}
	Metrics = Signal{"/v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"}
)

// The protocols, as Knative names them.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// Destination says where messages go.
type Destination struct {
	Protocol string // ProtocolHTTP or ProtocolGRPC
	Endpoint string // as ParseEndpoint reads it; over gRPC, its path means nothing
	Insecure bool   // host:port without a scheme is in clear text
	Options
}

// Options are the parts of a Destination that have a default.
type Options struct {
	IsExact bool           // over HTTP, the endpoint's path is used unchanged, "/" if it has none
	Headers []Header       // sent with each message
	Timeout time.Duration  // of one attempt; 0 = RequestTimeout
	Gzip    bool           // messages are compressed
	RootCAs *x509.CertPool // verify the collector's certificate; nil = those of the system
}

// Header is a field that each message carries. It replaces User-Agent, and none
// of the fields that OTLP and gRPC need.
type Header struct{ Name, Value string }

func (o *Options) timeout() time.Duration { return cmp.Or(o.Timeout, RequestTimeout) }

// connectionFields are fields that net/http or the connection sets, and that a
// request over HTTP/2 must not have (RFC 9113 section 8.2.2).
var connectionFields = []string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade",
}

// addTo adds the headers to a request, except headers of the connection
// and of the names in reserved.
func (o *Options) addTo(r *http.Request, reserved ...string) {
	for _, h := range o.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if !slices.Contains(reserved, name) && !slices.Contains(connectionFields, name) {
			r.Header[name] = []string{h.Value}
		}
	}
}

// gzipped compresses a message.
func gzipped(message []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(message)                         // a Buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// NewSender connects to nothing yet.
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

// RequestTimeout bounds one attempt unless Options say otherwise.
const RequestTimeout = 10 * time.Second
