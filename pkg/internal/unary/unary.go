// Package unary is a gRPC call of one message each way, as a request and a
// response of net/http; who uses it brings the connection. Linking grpc-go
// instead would cost each pod 4.6 MiB of memory.
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

// What is wrong with a response that carries no status of the call.
var (
	ErrNotGRPC  = errors.New("not gRPC")
	ErrNoStatus = errors.New("no gRPC status")
	ErrFrame    = errors.New("not one uncompressed gRPC message")
)

// Status is a call that did not succeed.
type Status struct {
	Code    int // 1 to 65535
	Message string
}

// Error is part of error.
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

// A message is preceded by a byte for its compression and four for its length.
const prefixBytes = 5

// serverMargin is what the server is given beyond the deadline of the context:
// were it the first to give up, its reset would not look like a timeout.
const serverMargin = 100 * time.Millisecond

// longestTimeout has the eight digits that a timeout may have at most.
const longestTimeout = 99999999 * time.Millisecond

// Request is a call of method, such as "/package.Service/Method", at the scheme
// and host of at. The deadline of ctx goes along. It is not to be redirected.
func Request(ctx context.Context, at *url.URL, method, userAgent string, message []byte) (*http.Request, error) {
	return request(ctx, at, method, userAgent, 0, message)
}

// GzipRequest is Request with a message that the caller has compressed.
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

// Message returns the message of a response with status 200, whose body has
// been read to its end, or the *Status of the call, or one of the errors above.
func Message(r *http.Response, body []byte) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return nil, ErrNotGRPC
	}
	from := r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = r.Header // without a message, the one head is the trailers as well
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
