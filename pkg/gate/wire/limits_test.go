package wire

import (
	"fmt"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/limits"
)

func TestDocsListTheLimitsOfMessages(t *testing.T) {
	const malformed = "the message is malformed: 400 to a request, 502 for a response"
	const badBody = "the body is malformed: the gate cuts the message off at this point"
	limits.CompareWithDocs(t, "../../../docs/design.md", "messages over HTTP/1", []limits.Limit{
		{Name: "head", Value: limits.Size(MaxHeadBytes), Beyond: "431, or 414 if the request line alone is too long; 502 for a response", Counter: gate.HeadTooLarge.String()},
		{Name: "fields of a head", Value: limits.Count(MaxFields), Beyond: "431; 502 for a response", Counter: gate.HeadTooLarge.String()},
		{Name: "list elements in all Connection fields together; in all TE and Upgrade fields together", Value: fmt.Sprintf("%s each", limits.Count(maxOptions)), Beyond: malformed},
		{Name: "announced trailer names", Value: limits.Count(maxOptions), Beyond: "the field is not forwarded"},
		{Name: "value of a response's Content-Length", Value: limits.Size(maxLengthBytes), Beyond: "502", Counter: gate.UpstreamMalformed.String()},
		{Name: "chunk extensions of a body", Value: limits.Size(maxExtensionBytes), Beyond: badBody},
		{Name: "trailers of a body", Value: limits.Size(maxTrailerBytes), Beyond: badBody},
		{Name: "size of a chunk", Value: fmt.Sprintf("%d hexadecimal digits", maxSizeDigits), Beyond: badBody},
	})
}
