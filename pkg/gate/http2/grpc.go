package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// gRPC status codes.
const (
	grpcCancelled         = 1
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// grpcOfReset maps the error code of a RST_STREAM from the server to a gRPC status (gRPC
// over HTTP/2, "Errors").
func grpcOfReset(code h2.Code) uint8 {
	switch code {
	case h2.RefusedStream:
		return grpcUnavailable
	case h2.Cancel:
		return grpcCancelled
	case h2.EnhanceYourCalm:
		return grpcResourceExhausted
	case h2.InadequateSecurity:
		return grpcPermissionDenied
	}
	return grpcInternal
}

// grpcStatus returns the gRPC status of a call that ended with o. If the container reset
// or closed the call after the client's deadline, the status is DEADLINE_EXCEEDED. If it
// did so before the deadline, the status depends on the reset code.
func (s *downStream) grpcStatus(o gate.Outcome) int {
	m := o.Meaning()
	switch {
	case m.ByUpstream && s.x.Elapsed(s.eng().loop.Now()) >= s.req.GRPCTimeout():
		return grpcDeadlineExceeded
	case m.ByUpstream && s.x.GRPC != 0:
		return int(s.x.GRPC)
	}
	return m.GRPC
}
