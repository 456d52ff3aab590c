package cluster

import (
	"fmt"
	"os"
	"testing"
)

// Options select what a package's tests need in addition to a node.
type Options struct {
	// Definitions installs the definitions of the custom resources in config/overlays.
	Definitions bool
	// Prometheus runs Prometheus and its adapter. The node's own adapter does not run.
	Prometheus bool
	// Knative installs Knative Serving, and runs DNS for services and an ingress.
	Knative bool
	// Suites builds Knative's own tests, and the images that they use.
	Suites bool
}

// stageVariable names the stage that the test binary runs. The binary starts itself
// twice.
const stageVariable = "QUEUEGATE_CLUSTER_STAGE"

// Main runs the tests of a package. It is the body of TestMain.
func Main(m *testing.M, options Options) {
	os.Exit(run(m, options))
}

func run(m *testing.M, options Options) int {
	var err error
	switch os.Getenv(stageVariable) {
	case "":
		var code int
		if code, err = outside(options); err == nil {
			return code
		}
	case "init":
		var code int
		if code, err = reap(); err == nil {
			return code
		}
	default:
		if err = start(options); err == nil {
			return m.Run()
		}
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return 1
}
