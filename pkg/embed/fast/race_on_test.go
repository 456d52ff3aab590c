//go:build race

package fast

// raceDetector means that the race detector runs, with which sync.Pool drops some of
// its objects.
const raceDetector = true
