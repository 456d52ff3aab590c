// Pause sleeps until a signal terminates it. It holds a pod's namespaces open.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	done := make(chan os.Signal, 1)
	signal.Notify(done, os.Interrupt, syscall.SIGTERM)
	<-done
}
