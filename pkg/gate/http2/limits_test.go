package http2

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/internal/limits"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// limitRows is the table of limits against abuse over HTTP/2. The Counter of a row is the
// value of the label "kind" under which queuegate_http2_faults_total counts violations.
var limitRows = []limits.Limit{
	{
		Name:    "streams at once, per connection",
		Value:   fmt.Sprintf("%s (announced)", limits.Count(maxStreams)),
		Beyond:  "the stream is reset: REFUSED_STREAM",
		Counter: h2.FaultProtocol.String(),
	},
	{
		Name:   "head",
		Value:  fmt.Sprintf("`HTTP2_MAX_HEADER_LIST` after decoding (%s; announced), %s fields", limits.Size(h2.DefaultMaxList), limits.Count(h2.MaxFields)),
		Beyond: "431",
	},
	{
		Name: "head far above `HTTP2_MAX_HEADER_LIST`",
		Value: fmt.Sprintf("a field block of twice `HTTP2_MAX_HEADER_LIST` (%s at least) or of %s CONTINUATION frames, or %d times `HTTP2_MAX_HEADER_LIST` after decoding",
			limits.Size(h2.DefaultMaxBlock), limits.Count(h2.MaxContinuations), h2.MaxListExcess),
		Beyond:  "the connection ends: ENHANCE_YOUR_CALM",
		Counter: h2.FaultHeaderBlock.String(),
	},
	{
		Name:    "memory for heads",
		Value:   fmt.Sprintf("`HEAD_MEMORY` for all heads, not counting the first %s of each head; also %s per connection while more than half of `HEAD_MEMORY` is in use", limits.Size(uncountedHead), limits.Size(maxConnHeads)),
		Beyond:  "503 `out of buffer memory`, or the stream or the connection ends: ENHANCE_YOUR_CALM",
		Counter: h2.FaultHeaderBlock.String(),
	},
	{
		Name:   "head of a request towards a container over HTTP/2",
		Value:  fmt.Sprintf("the container's `SETTINGS_MAX_HEADER_LIST_SIZE`, %s if it announces none", limits.Size(h2.DefaultMaxList)),
		Beyond: "431; not forwarded",
	},
	{
		Name:    "head of a response",
		Value:   fmt.Sprintf("%s after decoding", limits.Size(maxUpstreamHead)),
		Beyond:  "502",
		Counter: h2.FaultMalformed.String(),
	},
	{
		Name:    "interim responses that wait for the client",
		Value:   fmt.Sprintf("%s, of %s together", limits.Count(maxQueuedHeads), limits.Size(maxQueuedHeadBytes)),
		Beyond:  "502",
		Counter: h2.FaultHeaderBlock.String(),
	},
	{
		Name:   "bytes of a request body that the container has not read",
		Value:  fmt.Sprintf("%s per stream; per connection %s at first, %s once it carries bodies", limits.Size(streamWindow), limits.Size(h2.InitialWindow+1), limits.Size(connWindow)),
		Beyond: "the client waits (flow control)",
	},
	{
		Name:   "frames for a client that does not read",
		Value:  fmt.Sprintf("%s in addition to the kernel's buffer; %s while the memory for bodies is used up", limits.Size(maxUnwritten), limits.Size(maxUnwrittenOverBudget)),
		Beyond: "its streams wait, and their responses are not read from the container, until a timeout of the request expires",
	},
	{
		Name:   "streams of load reports, per event loop",
		Value:  limits.Count(maxLoadStreams),
		Beyond: "gRPC status 8",
	},
	{
		Name:   "request for a stream of load reports",
		Value:  fmt.Sprintf("%s, complete within %s", limits.Size(maxLoadRequest), limits.Time(time.Duration(loadRequestTimeout))),
		Beyond: "gRPC status 13 (INTERNAL) for a longer message, 4 (DEADLINE_EXCEEDED) for a late one",
	},
	{
		Name:    "resets of streams, by either side",
		Value:   fmt.Sprintf("%s in a second", limits.Count(h2.MaxResets)),
		Beyond:  "the connection ends: ENHANCE_YOUR_CALM (CVE-2023-44487, CVE-2025-8671)",
		Counter: h2.FaultResets.String(),
	},
	{
		Name:    "frames without content: empty DATA, SETTINGS, PING, PRIORITY, WINDOW_UPDATE, unknown types",
		Value:   fmt.Sprintf("%s in a second; each frame with content allows several more", limits.Count(h2.MaxEmptyFrames)),
		Beyond:  "the connection ends: ENHANCE_YOUR_CALM",
		Counter: h2.FaultEmptyFrames.String(),
	},
	{
		Name:    "replies to frames (acknowledgements, RST_STREAM) that the client does not read",
		Value:   limits.Count(h2.MaxUnread),
		Beyond:  "the connection ends: ENHANCE_YOUR_CALM",
		Counter: h2.FaultUnread.String(),
	},
	{
		Name:   "preface",
		Value:  fmt.Sprintf("%s from its first byte; over TLS %s from the end of the handshake", limits.Time(time.Duration(new(Protocol).headTimeout())), limits.Time(time.Duration(prefaceTimeout))),
		Beyond: "the connection is closed",
	},
	{
		Name:    "a field block, or any frame, from its first byte to its last",
		Value:   limits.Time(time.Duration(new(Protocol).headTimeout())),
		Beyond:  "the connection ends: ENHANCE_YOUR_CALM",
		Counter: h2.FaultIdle.String(),
	},
	{
		Name:   "concurrency slot of a request whose client leaves the stream's window at zero",
		Value:  fmt.Sprintf("released once the gate has read the complete response, if it has at most %s", limits.Size(streamWindow)),
		Beyond: "a longer response holds the slot until it ends",
	},
	{
		Name:    "time for which a window stays at zero",
		Value:   "the idle timeout, or the request timeout",
		Beyond:  "the stream is reset",
		Counter: h2.FaultIdle.String(),
	},
	{
		Name:   "connections without a stream",
		Value:  "descriptors ([descriptors](descriptors.md))",
		Beyond: "the longest idle connection is closed, with GOAWAY; connections on which a head has begun are closed last",
	},
}

func TestDocsHaveTheLimitsOfHTTP2(t *testing.T) {
	limits.CompareWithDocs(t, "../../../docs/http2.md", "HTTP/2", limitRows)
}

// The faults before FaultResets are violations of the protocol, not limits.
func TestEveryFaultForAnExceededLimitIsInTheTableOfLimits(t *testing.T) {
	for _, fault := range h2.Faults()[h2.FaultResets:] {
		if !slices.ContainsFunc(limitRows, func(l limits.Limit) bool { return l.Counter == fault }) {
			t.Errorf("no limit is counted as %s", fault)
		}
	}
}
