package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The page expects a cluster with queue-proxy, and restores it.
func TestTheCommandsOfThePageWork(t *testing.T) {
	cluster.UseSidecar(t, "queue")
	cluster.RunPage(t, "../../..", "docs/knative.md")
}
