//go:build race

package requestlog

// raceDetector makes sync.Pool drop what it is given, now and then.
const raceDetector = true
