// Package leakcheck fails a package's tests when something of the module
// outlives them. It is for TestMain only.
package leakcheck

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is what goroutines that are ending get: a fail-safe, no test
// depends on how long anything takes.
const patience = 10 * time.Second

// Main runs the tests and exits with 1 if they fail, or if a goroutine or
// coroutine of the module is left behind.
func Main(m *testing.M) {
	code := m.Run()
	if left := Leftovers(patience); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left behind:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// Leftovers returns the stacks of the module's goroutines but this one. It
// waits for those that are ending, for as long as patience lasts.
func Leftovers(patience time.Duration) []string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for i, stack := range strings.Split(string(buf), "\n\n") {
			if i > 0 && strings.Contains(stack, "queuegate/pkg/") && !strings.Contains(stack, "testing.(*M).Run") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}
