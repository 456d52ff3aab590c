// Package prometheus tests a HorizontalPodAutoscaler in a real node. Prometheus reads the
// gate's metrics, and an adapter offers them to the autoscaler. Prometheus and the
// adapter run with the configurations in the directory config. Without the command
// prometheus (Debian's package of this name), the tests are skipped.
package prometheus

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Prometheus: true}) }
