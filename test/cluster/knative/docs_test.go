package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The page starts from a cluster with queue-proxy, and leaves it so.
func TestThePageIsRightCommandByCommand(t *testing.T) {
	cluster.UseSidecar(t, "queue")
	cluster.RunPage(t, "../../..", "docs/knative.md")
}
