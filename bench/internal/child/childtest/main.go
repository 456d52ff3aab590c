// Package childtest lets a test program be the helpers that its tests start.
package childtest

import (
	"fmt"
	"io"
	"os"
)

// Main is for TestMain: it runs the helper that the command line names, or else
// the tests.
func Main(tests interface{ Run() int }, helpers map[string]func(io.Reader, io.Writer) error) {
	if len(os.Args) == 2 && helpers[os.Args[1]] != nil {
		if err := helpers[os.Args[1]](os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Under the race detector a program waits a second before it exits, unless
	// a variable says not to; helpers inherit this.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(tests.Run())
}
