package gate

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the package when a goroutine or coroutine of the module
// outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftovers(10 * time.Second); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left behind:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leftovers returns the stacks of the module's goroutines but this one. It
// gives those that are ending the time to do so.
func leftovers(patience time.Duration) []string {
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
