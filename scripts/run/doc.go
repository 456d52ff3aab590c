// Run starts the demo container and the gate in front of it, says what to try
// once the gate answers, and on the first signal stops both: the gate first,
// so that what it has accepted can finish.
//
// Neither outlives it: each is killed when run ends in whatever way. If one of
// them ends by itself, run stops the other and exits with 1.
package main
