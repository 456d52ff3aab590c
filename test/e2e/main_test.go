package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

var queueBinary, containerBinary string

func TestMain(m *testing.M) {
	if mode := os.Getenv(applicationMode); mode != "" {
		os.Exit(beApplication(mode))
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	if err := launch.RaiseFileLimit(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if containerBinary, err = launch.Build(dir, "./test/e2e/container"); err != nil {
		return 0, err
	}
	if queueBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	// Most tests wait for timeouts, so more tests than processors can run at a time.
	parallel := "6"
	if repeats { // three processes run at the same time
		parallel = "4"
	}
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return 0, err
	}
	defer startRepetitions(dir)()
	return m.Run(), nil
}
