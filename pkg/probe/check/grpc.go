package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// GRPC calls grpc.health.v1.Health/Check; success is SERVING. It is one
// unary call with a message of one field each way, written by hand: grpc-go
// would cost 4.6 MiB of memory in every pod.
type GRPC struct {
	Address string // host:port
	Service string
}

const (
	healthPath    = "/grpc.health.v1.Health/Check"
	healthServing = 1 // HealthCheckResponse.ServingStatus
	// A health answer has two bytes; the rest is room for fields to come.
	maxHealthAnswer = 4 << 10
	// Status codes of gRPC.
	grpcDeadlineExceeded = 4
	grpcUnimplemented    = 12
)

// serverMargin is what the server is given in ms beyond our own patience: were
// it the first to give up, its reset would not look like a timeout.
const serverMargin = 100

// Probe is part of Prober.
func (p *GRPC) Probe(ctx context.Context) Result {
	conn, stop, cause := dial(ctx, p.Address)
	if conn == nil {
		return Result{Cause: cause}
	}
	defer stop()
	defer conn.Close()
	request := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: "http", Host: p.Address, Path: healthPath},
		Header: http.Header{
			"Content-Type": {"application/grpc"},
			"Te":           {"trailers"},
			"User-Agent":   {userAgent},
		},
	}
	message := healthRequest(p.Service)
	request.Body = io.NopCloser(bytes.NewReader(message))
	request.ContentLength = int64(len(message))
	if ms := millisecondsLeft(ctx); ms > 0 {
		ms += serverMargin
		request.Header["Grpc-Timeout"] = []string{strconv.FormatInt(min(ms, 99999999), 10) + "m"}
	}
	return Result{Cause: roundTripHTTP2(ctx, conn, request, readHealth), Reached: true}
}

// healthRequest is a gRPC frame with HealthCheckRequest{service = 1}.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = append(message, 1<<3|2)
		message = binary.AppendUvarint(message, uint64(len(service)))
		message = append(message, service...)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(frame, message...)
}

// readHealth judges the response: HTTP status, content type, gRPC status, and
// the message.
func readHealth(response *http.Response) Cause {
	if response.StatusCode != http.StatusOK {
		return Cause{Kind: CauseStatus, Status: response.StatusCode}
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/grpc") {
		return Cause{Kind: CauseMalformed, Detail: "not gRPC"}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return causeOf(err)
	}
	// Without a message the status stands in the only head there is.
	status := response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status")
	}
	code, err := strconv.ParseUint(status, 10, 16)
	switch {
	case err != nil:
		return Cause{Kind: CauseMalformed, Detail: "no gRPC status"}
	case code == grpcUnimplemented:
		return Cause{Kind: CauseUnimplemented}
	case code == grpcDeadlineExceeded:
		return Cause{Kind: CauseTimeout, Detail: "said by the gRPC server"}
	case code != 0:
		return Cause{Kind: CauseNotServing, Status: int(code)}
	}
	serving, ok := healthStatus(body)
	switch {
	case !ok:
		return Cause{Kind: CauseMalformed, Detail: "not a health answer"}
	case serving != healthServing:
		return Cause{Kind: CauseNotServing}
	}
	return Cause{}
}

// healthStatus reads HealthCheckResponse{status = 1} from a gRPC frame. Other
// fields are skipped, as protobuf demands. An absent status is 0, UNKNOWN.
func healthStatus(frame []byte) (status uint64, ok bool) {
	if len(frame) < 5 || frame[0] != 0 || int64(binary.BigEndian.Uint32(frame[1:5])) != int64(len(frame)-5) {
		return 0, false
	}
	message := frame[5:]
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return 0, false
		}
		message = message[n:]
		var skip uint64
		switch tag & 7 {
		case 0:
			value, n := binary.Uvarint(message)
			if n <= 0 {
				return 0, false
			}
			if tag>>3 == 1 {
				status = value
			}
			skip = uint64(n)
		case 1:
			skip = 8
		case 2:
			length, n := binary.Uvarint(message)
			if n <= 0 || length > uint64(len(message)) {
				return 0, false
			}
			skip = uint64(n) + length
		case 5:
			skip = 4
		default:
			return 0, false
		}
		if skip > uint64(len(message)) {
			return 0, false
		}
		message = message[skip:]
	}
	return status, true
}
