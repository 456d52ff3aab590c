package app

import (
	"runtime/debug"
	"time"
)

const (
	// startTime is when the start is over, and with it what it allocated.
	startTime = 2 * time.Second
	// startTries is how often a gate with traffic is asked again: what is busy
	// finds use for the memory before long.
	startTries = 10
)

// releaseStartMemory gives the memory that starting has needed back to the system: an
// idle gate makes so little garbage that no collection would come for a while.
// Where there is traffic it waits for a quiet moment, since the collection
// takes some ms of CPU.
func releaseStartMemory(busy func() bool) {
	var try func(left int)
	try = func(left int) {
		time.AfterFunc(startTime, func() {
			switch {
			case !busy():
				debug.FreeOSMemory()
			case left > 1:
				try(left - 1)
			}
		})
	}
	try(startTries)
}
