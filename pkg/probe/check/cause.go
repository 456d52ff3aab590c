package check

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
)

// CauseKind says why a container is not ready.
type CauseKind uint8

const (
	CauseNone          CauseKind = iota // the check succeeded
	CauseUnknown                        // no check has ended
	CauseRefused                        // connection refused
	CauseUnreachable                    // no route, unknown host name, or no local port
	CauseReset                          // the connection was reset before a response
	CauseClosed                         // the connection was closed before the response was whole
	CauseTimeout                        // no response within timeoutSeconds
	CauseStatus                         // an HTTP status outside 200 to 399, in Cause.Status
	CauseNotServing                     // the gRPC health status is not SERVING
	CauseUnimplemented                  // the gRPC server has no health service
	CauseMalformed                      // the response is not HTTP, or not gRPC
	CauseTLS                            // only one side uses TLS, or the handshake failed
	CauseRedirects                      // more than 10 redirects
	CauseConfirming                     // fewer consecutive successes than successThreshold
	CauseStopped                        // the checks were stopped
)

var causeWords = [...]struct{ token, sentence string }{
	CauseNone:          {"", "success"},
	CauseUnknown:       {"unknown", "not probed yet"},
	CauseRefused:       {"refused", "connection refused"},
	CauseUnreachable:   {"unreachable", "address unreachable"},
	CauseReset:         {"reset", "connection reset"},
	CauseClosed:        {"closed", "connection closed before the answer was complete"},
	CauseTimeout:       {"timeout", "no answer in time"},
	CauseStatus:        {"status", "answered with status"},
	CauseNotServing:    {"not-serving", "gRPC health is not SERVING"},
	CauseUnimplemented: {"unimplemented", "gRPC health service is not implemented"},
	CauseMalformed:     {"malformed", "malformed answer"},
	CauseTLS:           {"tls", "TLS failed"},
	CauseRedirects:     {"redirects", "too many redirects"},
	CauseConfirming:    {"confirming", "not enough successes in a row yet"},
	CauseStopped:       {"stopped", "probing has stopped"},
}

// Word returns the kind as a single word for a label; empty for success.
func (k CauseKind) Word() string { return causeWords[k].token }

// CauseWords returns the words of all kinds, including success.
func CauseWords() []string {
	words := make([]string, len(causeWords))
	for i := range words {
		words[i] = causeWords[i].token
	}
	return words
}

// Cause is the reason why a check failed. The zero value means success. It is safe to
// show, because it contains only numbers and fixed texts of this package.
type Cause struct {
	Kind   CauseKind
	Status int    // for CauseStatus the HTTP status; for CauseNotServing the gRPC status (0 = none)
	Detail string // fixed text with details; may be empty
}

// Token returns the cause for a header: "refused", "status 503", "not-serving". It is
// empty for success.
func (c Cause) Token() string {
	token := causeWords[c.Kind].token
	if c.Kind == CauseStatus {
		return token + " " + strconv.Itoa(c.Status)
	}
	return token
}

// String returns the cause for logs and bodies: "connection refused".
func (c Cause) String() string {
	s := causeWords[c.Kind].sentence
	switch {
	case c.Kind == CauseStatus:
		s += " " + strconv.Itoa(c.Status)
	case c.Kind == CauseNotServing && c.Status != 0:
		s += " (status " + strconv.Itoa(c.Status) + ")"
	}
	if c.Detail != "" {
		s += ": " + c.Detail
	}
	return s
}

// causeOf returns the cause for an error of a connection. An unknown error counts as a
// malformed response.
func causeOf(err error) Cause {
	var (
		netErr    net.Error
		dnsErr    *net.DNSError
		recordErr tls.RecordHeaderError
		alertErr  tls.AlertError
	)
	switch {
	case err == nil:
		return Cause{}
	case errors.Is(err, context.Canceled):
		return Cause{Kind: CauseStopped}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Cause{Kind: CauseRefused}
	case errors.As(err, &dnsErr) && !dnsErr.IsTimeout:
		return Cause{Kind: CauseUnreachable, Detail: "no such host name"}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return Cause{Kind: CauseTimeout}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return Cause{Kind: CauseReset}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Cause{Kind: CauseClosed}
	case errors.As(err, &recordErr):
		return Cause{Kind: CauseTLS, Detail: "the server does not speak TLS"}
	case errors.As(err, &alertErr):
		return Cause{Kind: CauseTLS, Detail: "handshake refused"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EINVAL):
		return Cause{Kind: CauseUnreachable}
	}
	return Cause{Kind: CauseMalformed}
}

// CauseOfStatus returns success for a status from 200 to 399, as the kubelet does.
func CauseOfStatus(status int) Cause {
	if status >= 200 && status < 400 {
		return Cause{}
	}
	return Cause{Kind: CauseStatus, Status: status}
}
