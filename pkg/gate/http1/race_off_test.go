//go:build !race

package http1

// raceDetector reports whether the race detector is on. Tests then relax their allocation
// limits.
const raceDetector = false
