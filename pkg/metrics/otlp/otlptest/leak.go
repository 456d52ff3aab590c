package otlptest

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
const patience = 15 * time.Second

// Main runs the tests and exits with 1 if they fail, or if a goroutine of the
// packages that send, or one of net/http, is left behind. It is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if left := leftovers(); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left behind:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

func leftovers() []string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for i, stack := range strings.Split(string(buf), "\n\n") {
			ours := strings.Contains(stack, "queuegate/pkg/metrics/") || strings.Contains(stack, "net/http.")
			if i > 0 && ours && !strings.Contains(stack, "testing.(*M).Run") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}
