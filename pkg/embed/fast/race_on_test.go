//go:build race

package fast

// raceDetector reports that the race detector runs; then sync.Pool drops objects at
// random.
const raceDetector = true
