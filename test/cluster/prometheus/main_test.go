// Package prometheus runs Prometheus and its adapter with the configurations in config,
// for a HorizontalPodAutoscaler in a real node. Without the command prometheus (Debian's
// package) it is skipped.
package prometheus

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Prometheus: true}) }
