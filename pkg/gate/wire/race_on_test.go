//go:build race

package wire

// raceDetector reports whether the race detector is on; tests relax time limits then.
const raceDetector = true
