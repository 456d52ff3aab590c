package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The page's commands expect a cluster with queue-proxy.
func TestTheCommandsOfTheKnativePageWork(t *testing.T) {
	cluster.UseSidecar(t, "queue")
	cluster.RunPage(t, "../../..", "docs/knative.md")
}
