package cluster

import (
	"fmt"
	"os"
	"testing"
)

// Options select the programs and files that the tests of a package need in addition to
// the node.
type Options struct {
	// Definitions installs the custom resource definitions of config/overlays.
	Definitions bool
	// Prometheus runs Prometheus and its adapter instead of the node's adapter.
	Prometheus bool
	// Knative installs Knative Serving, a name server and an ingress.
	Knative bool
	// Suites builds Knative's own tests and their images.
	Suites bool
}

// stageVariable is the environment variable that tells a process of the test binary its
// stage. The binary starts itself twice.
const stageVariable = "QUEUEGATE_CLUSTER_STAGE"

// Main is the body of TestMain.
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
