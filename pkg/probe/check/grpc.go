package check

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/queuegate/queuegate/pkg/internal/unary"
)

// GRPC checks with a call of grpc.health.v1.Health/Check. It succeeds if the response
// is SERVING.
type GRPC struct {
	Address string // host:port
	Service string
}

const (
	healthMethod  = "/grpc.health.v1.Health/Check"
	healthServing = 1 // value of HealthCheckResponse.ServingStatus
	// maxHealthBytes limits the response body. A body has 7 bytes today: a prefix of 5
	// bytes and a message of 2 bytes. The rest is for fields that later versions may add.
	maxHealthBytes = 4 << 10
)

// Check implements Checker.
func (p *GRPC) Check(ctx context.Context) Result {
	conn, stop, cause := dial(ctx, p.Address)
	if conn == nil {
		return Result{Cause: cause}
	}
	defer stop()
	defer conn.Close()
	request, err := unary.Request(ctx, &url.URL{Scheme: "http", Host: p.Address}, healthMethod, userAgent, healthRequest(p.Service))
	if err != nil {
		return Result{Cause: Cause{Kind: CauseUnreachable, Detail: "no such host name"}, Reached: true}
	}
	response, cause := roundTripHTTP2(ctx, conn, request, maxHealthBytes)
	if response != nil {
		cause = readHealth(response)
	}
	return Result{Cause: cause, Reached: true}
}

// healthRequest encodes a HealthCheckRequest, in which service is field 1.
func healthRequest(service string) []byte {
	if service == "" {
		return nil
	}
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), service)
}

// readHealth evaluates the HTTP status, the gRPC status and the message of a response.
func readHealth(response *http.Response) Cause {
	if response.StatusCode != http.StatusOK {
		return Cause{Kind: CauseStatus, Status: response.StatusCode}
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return causeOf(err)
	}
	message, err := unary.Message(response, body)
	var status *unary.Status
	switch {
	case errors.As(err, &status):
		switch status.Code {
		case unary.Unimplemented:
			return Cause{Kind: CauseUnimplemented}
		case unary.DeadlineExceeded:
			return Cause{Kind: CauseTimeout, Detail: "by the gRPC server"}
		}
		return Cause{Kind: CauseNotServing, Status: status.Code}
	case err != nil:
		return Cause{Kind: CauseMalformed, Detail: err.Error()}
	}
	serving, ok := healthStatus(message)
	switch {
	case !ok:
		return Cause{Kind: CauseMalformed, Detail: "not a health response"}
	case serving != healthServing:
		return Cause{Kind: CauseNotServing}
	}
	return Cause{}
}

// healthStatus parses a HealthCheckResponse, in which status is field 1, and skips
// other fields. An absent status is 0, which means UNKNOWN.
func healthStatus(message []byte) (status uint64, ok bool) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return 0, false
		}
		value := message[tag:]
		n := protowire.ConsumeFieldValue(number, kind, value)
		if n < 0 {
			return 0, false
		}
		if number == 1 && kind == protowire.VarintType {
			status, _ = protowire.ConsumeVarint(value)
		}
		message = value[n:]
	}
	return status, true
}
