package main

import (
	"runtime/debug"
	"time"
)

// settleAfter is when the start is over, and with it what it allocated.
const settleAfter = 2 * time.Second

// settle gives the memory that starting has needed back to the system: an
// idle gate makes so little garbage that no collection would come for a while.
func settle() { time.AfterFunc(settleAfter, debug.FreeOSMemory) }
