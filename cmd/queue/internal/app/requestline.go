package app

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/metrics/requestlog"
)

// head is what the request log is told at the beginning of a request.
func head(x *gate.Exchange) requestlog.Head {
	return requestlog.Head{
		Method: x.Method, Target: x.Target, Protocol: x.Protocol, Host: x.Host, Peer: x.Peer, Fields: x.Fields,
	}
}

// result is what it is told at the end.
func result(x *gate.Exchange, trace gate.TraceID) requestlog.Result {
	return requestlog.Result{
		Status: x.Status, Outcome: x.Outcome.String(),
		RequestBytes: x.RequestBody, ResponseBytes: x.ResponseBody,
		Arrived: wall(x.Arrived), Ended: wall(x.Ended),
		Queued: x.QueueWait(), Upstream: x.UpstreamTime(), Total: x.Took(), TraceID: trace,
	}
}
