//go:build !race

package wire

// raceDetector tells tests whose figures it would spoil.
const raceDetector = false
