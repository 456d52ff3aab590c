package http1

import (
	"fmt"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/limits"
)

func TestDocsHaveTheLimitsOfConnections(t *testing.T) {
	limits.CompareWithDocs(t, "../../../docs/design.md", "connections over HTTP/1", []limits.Limit{
		{Name: "request head, from its first byte to its last", Value: limits.Time(defaultHeadTimeout), Beyond: "408", Counter: gate.HeadTimeout.String()},
		{Name: "memory for heads", Value: fmt.Sprintf("`HEAD_MEMORY` (%s), shared by all heads beyond %s each", limits.Size(exchange.DefaultHeadMemory), limits.Size(exchange.FreeHeadBytes)),
			Beyond: "503 `out of buffer memory`", Counter: gate.OutOfMemoryBudget.String()},
		{Name: "memory for bodies", Value: fmt.Sprintf("%s, shared with HTTP/2", limits.Size(exchange.BodyMemory)), Beyond: fmt.Sprintf("each body is copied through %s", limits.Size(smallBytes))},
		{Name: "bytes of a body that are read while the receiver accepts none", Value: limits.Size(maxAhead), Beyond: "the sender waits"},
		{Name: "a local reply that the client does not read", Value: limits.Time(time.Duration(replyTimeout)), Beyond: "the connection is closed"},
		{Name: "lingering close, for a client that still sends after its reply", Value: fmt.Sprintf("%s of silence, %s in total", limits.Time(time.Duration(lingerTimeout)),
			limits.Time(time.Duration(lingerTotal))), Beyond: "the connection is closed"},
		{Name: "bytes read and discarded in a lingering close", Value: fmt.Sprintf("%s every %s", limits.Size(lingerBytes), limits.Time(time.Duration(lingerPause))),
			Beyond: "the client waits"},
		{Name: "connections in lingering close", Value: limits.Count(maxLingering), Beyond: "closed at once"},
		{Name: "probes that wait for a result, per kind of prober", Value: limits.Count(exchange.MaxWaitingProbes), Beyond: "503", Counter: gate.NotReady.String()},
	})
}
