// Package prometheus runs Prometheus and its adapter in a real node, with the
// configurations in config, for a HorizontalPodAutoscaler. It needs the command
// prometheus (Debian's package), and is skipped without it.
package prometheus

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Prometheus: true}) }
