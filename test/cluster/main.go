package cluster

import (
	"fmt"
	"os"
	"testing"
)

// Options say what the tests of a package need beside a node.
type Options struct {
	// Definitions adds those of the custom resources in config/overlays.
	Definitions bool
	// Prometheus puts it and its adapter in the place of the node's own one.
	Prometheus bool
	// Knative adds Knative Serving, DNS for services, and an ingress.
	Knative bool
	// Suites adds Knative's own tests, and the images that they use.
	Suites bool
}

// stageVariable tells the test binary, which starts itself twice over, which of
// the three stages it is.
const stageVariable = "QUEUEGATE_CLUSTER_STAGE"

// Main is the body of a TestMain.
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
