package compare

import (
	"slices"

	"golang.org/x/perf/benchmath"
)

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test: the
// chance of ranks at least as uneven as those of a and b if both were drawn
// from one population. An empty sample, and samples that are nothing but one
// tie, give 1.
func MannWhitney(a, b []float64) float64 {
	thresholds := benchmath.DefaultThresholds
	sampleOf := func(values []float64) *benchmath.Sample { // it sorts in place
		return benchmath.NewSample(slices.Clone(values), &thresholds)
	}
	return benchmath.AssumeNothing.Compare(sampleOf(a), sampleOf(b)).P
}

// LeastP is the smallest p-value that samples of these sizes can give, reached
// when they do not overlap at all. It says how many rounds a claim needs.
func LeastP(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= min(n, m); i++ {
		ways *= float64(n+m-min(n, m)+i) / float64(i)
	}
	return min(1, 2/ways)
}
