//go:build !race

package wire

// raceDetector reports whether the race detector is on. Tests then relax their time
// limits.
const raceDetector = false
