//go:build !race

package http2

// raceDetector reports whether the race detector is on, which adds allocations.
const raceDetector = false
