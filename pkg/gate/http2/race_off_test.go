//go:build !race

package http2

// raceDetector tells tests whose figures it would spoil.
const raceDetector = false
