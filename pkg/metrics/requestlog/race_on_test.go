//go:build race

package requestlog

// raceDetector is true in builds with the race detector. In these builds, sync.Pool
// drops objects at random, so a test must not require that there are no allocations.
const raceDetector = true
