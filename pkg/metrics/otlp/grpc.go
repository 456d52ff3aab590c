package otlp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/queuegate/queuegate/pkg/internal/unary"
)

// grpcSender makes one unary call per message, over TLS if the scheme is https.
type grpcSender struct {
	url     *url.URL
	method  string
	options Options
	client  calls
}

func newGRPC(u *url.URL, method string, o Options) *grpcSender {
	return &grpcSender{url: u, method: method, options: o, client: calls{tls: o.tlsConfig()}}
}

// Timeout implements Sender.
func (g *grpcSender) Timeout() time.Duration { return g.options.timeout() }

// Send implements Sender.
func (g *grpcSender) Send(ctx context.Context, message []byte) ([]byte, error) {
	request := unary.Request
	if g.options.Gzip {
		request, message = unary.GzipRequest, gzipped(message)
	}
	r, err := request(ctx, g.url, g.method, userAgent, message)
	if err != nil {
		return nil, err
	}
	g.options.addTo(r, "Content-Type", "Te", "Grpc-Timeout", "Grpc-Encoding", "Grpc-Accept-Encoding")
	authorize(r)
	response, body, err := g.client.do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, httpStatus(response)
	}
	reply, err := unary.Message(response, body)
	var status *unary.Status
	switch {
	case errors.As(err, &status):
		return nil, &StatusError{Status: shorten(err.Error()), Temporary: grpcTemporary[status.Code]}
	case err != nil:
		return nil, &StatusError{Status: err.Error()}
	}
	return reply, nil
}

// Close implements Sender.
func (g *grpcSender) Close() { g.client.close() }

// grpcTemporary are the gRPC statuses after which the OTLP specification allows a
// retry. It omits RESOURCE_EXHAUSTED, which requires a delay that is not decoded here.
var grpcTemporary = map[int]bool{1: true, 4: true, 10: true, 11: true, 14: true, 15: true}

// shorten truncates a collector's message for a log line.
func shorten(message string) string {
	const most = 200
	if len(message) > most {
		message = message[:most]
	}
	return strings.ToValidUTF8(message, "")
}
