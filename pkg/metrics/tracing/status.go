package tracing

import (
	"cmp"
	"net/http"

	"go.opencensus.io/trace"
)

// statusClientGone is what stands for the answer to a client that left.
const statusClientGone = 499

// spanStatus maps an HTTP status to the canonical codes that OpenCensus and
// gRPC share. A fault that no status shows is Unknown.
func (f *Finish) spanStatus() trace.Status {
	code := canonical(f.Status)
	switch {
	case code == trace.StatusCodeOK && f.Error:
		return trace.Status{Code: trace.StatusCodeUnknown, Message: f.Outcome}
	case code == trace.StatusCodeOK:
		return trace.Status{}
	case f.Error:
		return trace.Status{Code: code, Message: f.Outcome}
	}
	return trace.Status{Code: code, Message: cmp.Or(http.StatusText(f.Status), f.Outcome)}
}

func canonical(status int) int32 {
	switch status {
	case http.StatusBadRequest:
		return trace.StatusCodeInvalidArgument
	case http.StatusUnauthorized:
		return trace.StatusCodeUnauthenticated
	case http.StatusForbidden:
		return trace.StatusCodePermissionDenied
	case http.StatusNotFound:
		return trace.StatusCodeNotFound
	case http.StatusConflict:
		return trace.StatusCodeAborted
	case http.StatusTooManyRequests:
		return trace.StatusCodeResourceExhausted
	case statusClientGone:
		return trace.StatusCodeCancelled
	case http.StatusInternalServerError:
		return trace.StatusCodeInternal
	case http.StatusNotImplemented:
		return trace.StatusCodeUnimplemented
	case http.StatusServiceUnavailable:
		return trace.StatusCodeUnavailable
	case http.StatusGatewayTimeout:
		return trace.StatusCodeDeadlineExceeded
	}
	if status >= 400 {
		return trace.StatusCodeUnknown
	}
	return trace.StatusCodeOK
}

// isError says whether a collector shall show a span as failed: not for an
// answer that blames the client (4xx).
func isError(s *trace.SpanData) bool {
	status, _ := s.Attributes["http.status_code"].(int64)
	return s.Code != trace.StatusCodeOK && (status < 400 || status > 499)
}
