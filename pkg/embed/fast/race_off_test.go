//go:build !race

package fast

const raceDetector = false
