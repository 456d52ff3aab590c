// Package knative runs Knative Serving in a real node, with the gate instead of
// queue-proxy.
package knative

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Knative: true}) }
