//go:build !race

package requestlog

const raceDetector = false
