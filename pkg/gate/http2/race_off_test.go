//go:build !race

package http2

// raceDetector reports whether the race detector is on; tests relax allocation limits then.
const raceDetector = false
