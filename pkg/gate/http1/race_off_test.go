//go:build !race

package http1

// raceDetector reports whether the race detector is on; tests relax allocation limits then.
const raceDetector = false
