// Package childtest lets a test program act as the helpers that its tests
// start.
package childtest

import (
	"fmt"
	"io"
	"os"
)

// Main is for TestMain. If the command line names a helper, it runs that helper,
// otherwise the tests.
func Main(tests interface{ Run() int }, helpers map[string]func(io.Reader, io.Writer) error) {
	if len(os.Args) == 2 && helpers[os.Args[1]] != nil {
		if err := helpers[os.Args[1]](os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Under the race detector a program waits one second before it exits. GORACE
	// disables this wait; helpers inherit the variable.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(tests.Run())
}
