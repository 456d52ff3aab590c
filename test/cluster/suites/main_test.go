// Package suites runs the tests of knative.dev/serving with the gate as the sidecar.
package suites

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Knative: true, Suites: true}) }
