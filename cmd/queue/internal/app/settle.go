package app

import (
	"runtime/debug"
	"time"
)

const (
	// settleAfter is when the start is over, and with it what it allocated.
	settleAfter = 2 * time.Second
	// settleTries is how often a gate with traffic is asked again: what is busy
	// finds use for the memory before long.
	settleTries = 10
)

// settle gives the memory that starting has needed back to the system: an
// idle gate makes so little garbage that no collection would come for a while.
// Where there is traffic it waits for a quiet moment, since the collection
// takes some ms of CPU.
func settle(busy func() bool) {
	var try func(left int)
	try = func(left int) {
		time.AfterFunc(settleAfter, func() {
			switch {
			case !busy():
				debug.FreeOSMemory()
			case left > 1:
				try(left - 1)
			}
		})
	}
	try(settleTries)
}
