package embed

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/embed/internal/core"
	"github.com/queuegate/queuegate/pkg/gate"
)

// Request describes a request that has ended.
type Request struct {
	Method, Target, Protocol string         // as received
	Peer                     netip.AddrPort // invalid for a Unix socket
	Status                   int            // status of the response, or of the outcome if no response could be sent
	Outcome                  string         // as in K-Gate-Outcome and metrics, such as served or queue-full

	QueueWait time.Duration // time from arrival until the request got a slot, or ended without one
	Took      time.Duration // time from arrival until the slot was released

	RequestBody, ResponseBody int64 // bytes
}

// requestEndedFunc returns the function to call at the end of each request, or nil.
func (c *Config) requestEndedFunc() func(*gate.Record) {
	hook, log := c.RequestEnded, c.Logger
	switch {
	case log == nil && hook == nil:
		return nil
	case log == nil:
		return func(x *gate.Record) { hook(requestOf(x)) }
	}
	return func(x *gate.Record) {
		if hook != nil {
			hook(requestOf(x))
		}
		if level := logLevels[x.Outcome.Meaning().Level]; log.Enabled(context.Background(), level) {
			log.LogAttrs(context.Background(), level, "request ended", slog.String("outcome", x.Outcome.String()),
				slog.Int("status", x.Status), slog.String("method", string(x.Method)), slog.String("target", string(x.Target)),
				slog.Duration("queue_wait", x.QueueWait()), slog.Duration("took", x.Took()))
		}
	}
}

var logLevels = [...]slog.Level{gate.Debug: slog.LevelDebug, gate.Info: slog.LevelInfo, gate.Warn: slog.LevelWarn, gate.Error: slog.LevelError}

func requestOf(x *gate.Record) Request {
	return Request{
		Method: string(x.Method), Target: string(x.Target), Protocol: x.Protocol, Peer: x.Peer, Status: x.Status,
		Outcome: x.Outcome.String(), QueueWait: x.QueueWait(), Took: x.Took(), RequestBody: x.RequestBody, ResponseBody: x.ResponseBody,
	}
}

// logDrain logs the stages of the drain.
func logDrain(log *slog.Logger, s *core.State) {
	s.DrainStage = func(stage string) {
		log.Info(stage, "in_flight", s.Gate.Admission.InFlight(), "queued", s.Gate.Admission.QueueDepth(), "tunnels", s.Gate.Drain.Tunnels())
	}
}
