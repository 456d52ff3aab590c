package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

// The commands of the page expect a cluster with queue-proxy, and leave one behind.
func TestTheCommandsOfThePageWork(t *testing.T) {
	cluster.UseSidecar(t, "queue")
	cluster.RunPage(t, "../../..", "docs/knative.md")
}
