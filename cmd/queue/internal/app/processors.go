package app

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// fewAfter is how long the container must not listen before GOMAXPROCS is reduced. The
// change stops all threads, which would slow down a start.
const fewAfter = 50 * time.Millisecond

// processors reduces GOMAXPROCS to 1 while the user container does not listen. This
// saves CPU time: with a higher value, each timer that fires also wakes a second thread,
// which finds no work.
type processors struct {
	mu          sync.Mutex
	few         bool
	reduceTimer *time.Timer // reduces GOMAXPROCS when it fires; nil = no timer runs
	fixed       bool        // GOMAXPROCS is set by the user
}

func newProcessors() *processors {
	return &processors{fixed: os.Getenv("GOMAXPROCS") != ""}
}

// listening is called when the container begins or stops listening.
func (p *processors) listening(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fixed:
	case !yes && !p.few && p.reduceTimer == nil:
		p.reduceTimer = time.AfterFunc(fewAfter, p.reduce)
	case yes:
		if p.reduceTimer != nil {
			p.reduceTimer.Stop()
			p.reduceTimer = nil
		}
		if p.few {
			p.few = false
			runtime.SetDefaultGOMAXPROCS()
		}
	}
}

func (p *processors) reduce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reduceTimer == nil {
		return // the container listens
	}
	p.reduceTimer = nil
	p.few = true
	runtime.GOMAXPROCS(1)
}
