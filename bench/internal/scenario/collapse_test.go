package scenario

import (
	"testing"
	"time"
)

func TestThroughputHasConvergedInTheFirstSecondNearTheCapacity(t *testing.T) {
	line := make([]int64, 50) // one count per 100 ms
	for i := range line {
		if line[i] = 10; i >= 20 {
			line[i] = 40
		}
	}
	// From 1.8 s to 2.8 s there are two counts of 10 and eight counts of 40. Their sum is
	// 340, which is stepShare (85 %) of the capacity of 400. No earlier span of 1 s has
	// this sum.
	if got := converged(line, 400); got != 1800*time.Millisecond {
		t.Errorf("converged after %v", got)
	}
	if got := converged(line, 100); got != 0 {
		t.Errorf("a line that starts at the capacity converged after %v", got)
	}
	if got := converged(line, 4000); got != 5*time.Second {
		t.Errorf("a line that never reaches it converged after %v", got)
	}
}
