package conformance

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

var queueBinary string

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	// Run eight tests at the same time on any number of processors, because the tests
	// mostly wait.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if queueBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
