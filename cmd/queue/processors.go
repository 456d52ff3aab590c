package main

import (
	"os"
	"runtime"
	"sync"
)

// processors gives the Go runtime one processor while the user container does
// not listen. There is nothing to carry then, and with more than one, each
// timer of the waiting would wake a second thread to look for work: that
// doubles what waiting costs.
type processors struct {
	mu    sync.Mutex
	few   bool
	fixed bool // GOMAXPROCS is the user's own choice
}

func newProcessors() *processors {
	return &processors{fixed: os.Getenv("GOMAXPROCS") != ""}
}

// listening is told whether the container listens. It stops the world for some
// ten µs when that changes.
func (p *processors) listening(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fixed || p.few == !yes {
		return
	}
	if p.few = !yes; p.few {
		runtime.GOMAXPROCS(1)
	} else {
		runtime.SetDefaultGOMAXPROCS()
	}
}
