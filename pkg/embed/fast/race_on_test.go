//go:build race

package fast

// raceDetector says that the race detector runs, under which sync.Pool drops a
// part of what it is given.
const raceDetector = true
