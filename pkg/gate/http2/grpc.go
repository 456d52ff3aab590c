package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// gRPC statuses that no outcome maps to directly.
const (
	grpcCancelled         = 1
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// grpcOfReset maps the error code of RST_STREAM from the server to a gRPC status
// (gRPC over HTTP/2, "Errors").
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

// grpcStatus returns the status of a call that ended with o. If the container reset or
// closed the call, the status is DEADLINE_EXCEEDED if the client's deadline has passed,
// and otherwise follows from the reset code.
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
