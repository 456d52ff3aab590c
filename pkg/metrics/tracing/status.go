package tracing

import (
	"cmp"
	"net/http"
)

// statusClientGone is what stands for the answer to a client that left.
const statusClientGone = 499

// spanStatus maps an HTTP status to the canonical codes. A fault that no
// status shows is Unknown.
func (f *Finish) spanStatus() Status {
	code := canonical(f.Status)
	switch {
	case code == CodeOK && f.Error:
		return Status{Code: CodeUnknown, Message: f.Outcome}
	case code == CodeOK:
		return Status{}
	case f.Error:
		return Status{Code: code, Message: f.Outcome}
	}
	return Status{Code: code, Message: cmp.Or(http.StatusText(f.Status), f.Outcome)}
}

func canonical(status int) Code {
	switch status {
	case http.StatusBadRequest:
		return CodeInvalidArgument
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden:
		return CodePermissionDenied
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict:
		return CodeAborted
	case http.StatusTooManyRequests:
		return CodeResourceExhausted
	case statusClientGone:
		return CodeCancelled
	case http.StatusInternalServerError:
		return CodeInternal
	case http.StatusNotImplemented:
		return CodeUnimplemented
	case http.StatusServiceUnavailable:
		return CodeUnavailable
	case http.StatusGatewayTimeout:
		return CodeDeadlineExceeded
	}
	if status >= 400 {
		return CodeUnknown
	}
	return CodeOK
}

// isError says whether a collector shall show a span as failed: not for an
// answer that blames the client (4xx).
func isError(s *SpanData) bool {
	status, _ := s.Attributes["http.status_code"].(int64)
	return s.Code != CodeOK && (status < 400 || status > 499)
}
