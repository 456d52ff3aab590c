package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// lineExporter writes each span as a line of JSON, with one write per batch.
type lineExporter struct {
	out     io.Writer
	service string
}

type spanLine struct {
	TraceID    string         `json:"traceId"`
	SpanID     string         `json:"spanId"`
	ParentID   string         `json:"parentSpanId,omitempty"`
	Service    string         `json:"service"`
	Name       string         `json:"name"`
	Kind       string         `json:"kind,omitempty"`
	Start      time.Time      `json:"start"`
	End        time.Time      `json:"end"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Status     string         `json:"status,omitempty"`
	Error      bool           `json:"error,omitempty"`
}

func (e *lineExporter) Export(_ context.Context, batch []*SpanData) (int, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, s := range batch {
		line := spanLine{
			TraceID: s.TraceID.String(), SpanID: s.SpanID.String(), ParentID: parentText(s),
			Service: e.service, Name: s.Name, Kind: kindText(s.Kind), Start: s.StartTime.UTC(), End: s.EndTime.UTC(),
			Attributes: s.Attributes, Status: s.Message, Error: s.Failed,
		}
		if err := encoder.Encode(line); err != nil {
			return len(batch), fmt.Errorf("encoding a span: %w", err)
		}
	}
	if _, err := e.out.Write(lines.Bytes()); err != nil {
		return len(batch), fmt.Errorf("writing spans: %w", err)
	}
	return 0, nil
}

func (*lineExporter) Close() {}

func parentText(s *SpanData) string {
	if s.ParentSpanID == (gate.SpanID{}) {
		return ""
	}
	return s.ParentSpanID.String()
}

func kindText(kind Kind) string {
	switch kind {
	case KindServer:
		return "SERVER"
	case KindClient:
		return "CLIENT"
	}
	return ""
}
