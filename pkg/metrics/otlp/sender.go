package otlp

import (
	"context"
	"fmt"
	"time"
)

// Sender delivers messages to one collector. It may be used by several
// goroutines at once.
type Sender interface {
	// Send makes one attempt and returns the collector's response. The error is
	// a *StatusError for a response other than success.
	Send(ctx context.Context, message []byte) (response []byte, err error)
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
}

// NewSender connects to nothing yet.
func NewSender(s Signal, d Destination) (Sender, error) {
	u, err := ParseEndpoint(d.Endpoint, s.Path, d.Insecure)
	if err != nil {
		return nil, err
	}
	switch d.Protocol {
	case ProtocolHTTP:
		return NewHTTP(u, "application/x-protobuf"), nil
	case ProtocolGRPC:
		return newGRPC(u, s.Method), nil
	}
	return nil, fmt.Errorf("protocol %q: want %s or %s", d.Protocol, ProtocolHTTP, ProtocolGRPC)
}

// RequestTimeout bounds one attempt.
const RequestTimeout = 10 * time.Second
