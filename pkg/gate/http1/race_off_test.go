//go:build !race

package http1

// raceDetector tells tests whose figures it would spoil.
const raceDetector = false
