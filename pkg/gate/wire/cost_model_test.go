//go:build !race

package wire

import "testing"

func TestTheCostOfParsingAHeadIsBounded(t *testing.T) {
	const size = 1 << 20
	for _, s := range shapes {
		head := s.fill(size)
		cost := costOf(head, 7)
		t.Logf("%-60s %8d bytes %9v", s.name, len(head), cost)
		if cost > maxCost {
			t.Errorf("%s: %v for %d bytes, want %v at most", s.name, cost, len(head), maxCost)
		}
	}
}
