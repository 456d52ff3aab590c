// Package unary implements a unary gRPC call as a net/http request and response. The
// caller provides the connection. grpc-go would cost 4.6 MiB of memory.
package unary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Errors of a response that has no gRPC status.
var (
	ErrNotGRPC  = errors.New("not gRPC")
	ErrNoStatus = errors.New("no gRPC status")
	ErrFrame    = errors.New("not one uncompressed gRPC message")
)

// Status is the gRPC status of a failed call.
type Status struct {
	Code    int // 1 to 65535
	Message string
}

// Error implements error.
func (s *Status) Error() string {
	text := fmt.Sprintf("gRPC status %d", s.Code)
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

// Codes of the gRPC specification.
const (
	DeadlineExceeded = 4
	Unimplemented    = 12
)

// prefixBytes is the length of a message prefix: one byte for the compression flag and
// four for the message length.
const prefixBytes = 5

// serverMargin is added to the caller's remaining time, and the sum is sent to the server
// as its timeout. So the caller times out first. A server that timed out first would
// reset the stream, and the caller could not recognize the timeout.
const serverMargin = 100 * time.Millisecond

// longestTimeout is the longest timeout that Grpc-Timeout can express in milliseconds.
// gRPC allows at most eight digits.
const longestTimeout = 99999999 * time.Millisecond

// Request returns the HTTP request of a gRPC call. The parameter method has the form
// "/package.Service/Method". The parameter at has the scheme, the host and optionally the
// user of the server. If ctx has a deadline, the request tells the server the remaining
// time. The HTTP client must not follow redirects.
func Request(ctx context.Context, at *url.URL, method, userAgent string, message []byte) (*http.Request, error) {
	return request(ctx, at, method, userAgent, 0, message)
}

// GzipRequest is Request for a message that is compressed with gzip.
func GzipRequest(ctx context.Context, at *url.URL, method, userAgent string, compressed []byte) (*http.Request, error) {
	r, err := request(ctx, at, method, userAgent, 1, compressed)
	if err == nil {
		r.Header["Grpc-Encoding"] = []string{"gzip"}
	}
	return r, err
}

func request(ctx context.Context, at *url.URL, method, userAgent string, compression byte, message []byte) (*http.Request, error) {
	frame := make([]byte, prefixBytes, prefixBytes+len(message))
	frame[0] = compression
	binary.BigEndian.PutUint32(frame[1:], uint32(len(message)))
	frame = append(frame, message...)
	u := url.URL{Scheme: at.Scheme, User: at.User, Host: at.Host, Path: method}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(frame))
	if err != nil {
		return nil, err
	}
	r.Header["Content-Type"] = []string{"application/grpc"}
	r.Header["Te"] = []string{"trailers"}
	r.Header["User-Agent"] = []string{userAgent}
	if deadline, ok := ctx.Deadline(); ok {
		left := min(max(time.Until(deadline), 0)+serverMargin, longestTimeout)
		r.Header["Grpc-Timeout"] = []string{strconv.FormatInt(left.Milliseconds(), 10) + "m"}
	}
	return r, nil
}

// Message returns the message of a response with HTTP status 200 and this complete
// body. The error is the *Status of the call, or ErrNotGRPC, ErrNoStatus or ErrFrame.
func Message(r *http.Response, body []byte) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return nil, ErrNotGRPC
	}
	from := r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = r.Header // a Trailers-Only response has the status in its header
	}
	code, err := strconv.ParseUint(from.Get("Grpc-Status"), 10, 16)
	switch {
	case err != nil:
		return nil, ErrNoStatus
	case code != 0:
		message := from.Get("Grpc-Message")
		if plain, err := url.PathUnescape(message); err == nil {
			message = plain
		}
		return nil, &Status{Code: int(code), Message: message}
	case len(body) < prefixBytes, body[0] != 0, uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-prefixBytes):
		return nil, ErrFrame
	}
	return body[prefixBytes:], nil
}
