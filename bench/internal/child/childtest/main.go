// Package childtest lets a test binary act as the helper processes that its tests start.
package childtest

import (
	"fmt"
	"io"
	"os"
)

// Main is the body of TestMain. If the command line names a helper, Main runs the helper,
// otherwise the tests.
func Main(tests interface{ Run() int }, helpers map[string]func(io.Reader, io.Writer) error) {
	if len(os.Args) == 2 && helpers[os.Args[1]] != nil {
		if err := helpers[os.Args[1]](os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Without this setting a program with the race detector waits one second before it
	// exits. Helpers inherit the variable.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(tests.Run())
}
