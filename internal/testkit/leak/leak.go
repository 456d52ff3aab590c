// Package leak finds goroutines that outlive the tests of a package. Only tests import it.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// timeout is the maximum time until all goroutines have ended.
const timeout = 2 * time.Minute

// Main runs the tests of a package. It fails if a goroutine that options do not exclude
// still runs after timeout. goleak.VerifyTestMain waits for one or two seconds, which is
// too short on a busy machine.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	for end := time.Now().Add(timeout); code == 0; {
		err := goleak.Find(options...)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
