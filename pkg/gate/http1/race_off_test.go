//go:build !race

package http1

// raceDetector reports whether the race detector is on. If it is, tests relax their
// limits of allocations.
const raceDetector = false
