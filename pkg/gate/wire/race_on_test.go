//go:build race

package wire

// raceDetector reports whether the race detector is on. If it is, tests relax their time
// limits.
const raceDetector = true
