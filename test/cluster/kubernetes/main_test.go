// Package kubernetes runs pods with the gate beside an application in a real
// node, from the files in config.
package kubernetes

import (
	"testing"

	"github.com/queuegate/queuegate/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Definitions: true}) }
