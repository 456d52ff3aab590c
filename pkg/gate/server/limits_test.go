package server

import (
	"fmt"
	"testing"

	"github.com/queuegate/queuegate/pkg/gate/internal/limits"
)

func TestDocsHaveTheLimitsOfHandshakes(t *testing.T) {
	limits.CompareWithDocs(t, "../../../docs/design.md", "TLS handshakes", []limits.Limit{
		{Name: "handshakes at once", Value: limits.Count(maxHandshakes), Beyond: "further clients wait"},
		{Name: "a handshake, from the ClientHello", Value: fmt.Sprintf("%s; %s without received bytes while other handshakes wait", limits.Time(handshakeTimeout), limits.Time(stallTimeout)),
			Beyond: "the connection is closed"},
	})
}
