package kubernetes

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestTheCommandsOfTheKubernetesPageWork(t *testing.T) {
	t.Parallel()
	cluster.RunPage(t, "../../..", "docs/kubernetes.md")
}
