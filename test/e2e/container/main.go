// Container stands in for a user container in end-to-end tests. It connects to the Unix
// socket named by its only argument, serves the calls of package remote on it, and ends
// with this connection.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/queuegate/queuegate/test/e2e/remote"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the path of the control socket, got %d arguments", len(args))
	}
	s, err := remote.NewServer()
	if err != nil {
		return err
	}
	control, err := net.Dial("unix", args[0])
	if err != nil {
		return fmt.Errorf("dialing the control socket: %w", err)
	}
	return s.Serve(control)
}
