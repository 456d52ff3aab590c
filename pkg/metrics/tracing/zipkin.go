package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/otlp"
)

// zipkinPath is the default path of Zipkin's span endpoint.
const zipkinPath = "/api/v2/spans"

// zipkinExporter sends lists of spans in version 2 of Zipkin's JSON format.
type zipkinExporter struct {
	sender  otlp.Sender
	service string
}

type zipkinSpan struct {
	TraceID     string             `json:"traceId"`
	ID          string             `json:"id"`
	ParentID    string             `json:"parentId,omitempty"`
	Name        string             `json:"name"`
	Kind        string             `json:"kind,omitempty"`
	Timestamp   int64              `json:"timestamp"` // µs since 1970
	Duration    int64              `json:"duration"`  // µs, at least 1
	Local       *zipkinEndpoint    `json:"localEndpoint"`
	Remote      *zipkinEndpoint    `json:"remoteEndpoint,omitempty"`
	Annotations []zipkinAnnotation `json:"annotations,omitempty"`
	Tags        map[string]string  `json:"tags,omitempty"`
}

type zipkinEndpoint struct {
	Service string `json:"serviceName,omitempty"`
	IPv4    string `json:"ipv4,omitempty"`
	IPv6    string `json:"ipv6,omitempty"`
	Port    int64  `json:"port,omitempty"`
}

type zipkinAnnotation struct {
	Timestamp int64  `json:"timestamp"`
	Value     string `json:"value"`
}

func (e *zipkinExporter) Export(ctx context.Context, batch []*SpanData) (int, error) {
	local := &zipkinEndpoint{Service: e.service}
	list := make([]zipkinSpan, len(batch))
	for i, s := range batch {
		list[i] = toZipkin(s, local)
	}
	message, err := json.Marshal(list)
	if err != nil {
		return len(batch), fmt.Errorf("encoding spans: %w", err)
	}
	if _, err := otlp.Deliver(ctx, e.sender, message); err != nil {
		return len(batch), err
	}
	return 0, nil
}

func (e *zipkinExporter) Close() { e.sender.Close() }

func toZipkin(s *SpanData, local *zipkinEndpoint) zipkinSpan {
	z := zipkinSpan{
		TraceID: zipkinTraceID(s.TraceID), ID: s.SpanID.String(), ParentID: parentText(s),
		Name: s.Name, Kind: kindText(s.Kind), Local: local, Remote: zipkinPeer(s),
		Timestamp: s.StartTime.UnixMicro(), Duration: max(s.EndTime.Sub(s.StartTime).Round(time.Microsecond).Microseconds(), 1),
	}
	for _, e := range s.Events {
		z.Annotations = append(z.Annotations, zipkinAnnotation{e.Time.UnixMicro(), e.Name})
	}
	z.Tags = make(map[string]string, len(s.Attributes)+1)
	for key, value := range s.Attributes {
		z.Tags[key] = fmt.Sprint(value)
	}
	if s.Failed {
		z.Tags["error"] = s.Message // Zipkin shows a span with this tag as failed
	}
	return z
}

// zipkinTraceID returns 16 digits for a 64-bit trace id, and 32 digits for any other.
func zipkinTraceID(id gate.TraceID) string {
	if [8]byte(id[:8]) == ([8]byte{}) {
		return id.String()[16:]
	}
	return id.String()
}

func zipkinPeer(s *SpanData) *zipkinEndpoint {
	ip := s.Peer.Addr()
	switch {
	case !ip.IsValid():
		return nil
	case ip.Is4():
		return &zipkinEndpoint{IPv4: ip.String(), Port: int64(s.Peer.Port())}
	}
	return &zipkinEndpoint{IPv6: ip.String(), Port: int64(s.Peer.Port())}
}
