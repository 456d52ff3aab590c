package app

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// fewAfter is how long the container must not listen before that counts: the
// change stops all threads, which the start and a quick restart do without.
const fewAfter = 50 * time.Millisecond

// processors gives the Go runtime one processor while the user container does
// not listen. There is nothing to carry then, and with more than one, each
// timer of the waiting would wake a second thread to look for work: that
// doubles what waiting costs.
type processors struct {
	mu    sync.Mutex
	few   bool
	soon  *time.Timer // makes them few; nil if that is not to come
	fixed bool        // GOMAXPROCS is the user's own choice
}

func newProcessors() *processors {
	return &processors{fixed: os.Getenv("GOMAXPROCS") != ""}
}

// listening is called when the container begins or ceases to listen.
func (p *processors) listening(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fixed:
	case !yes && !p.few && p.soon == nil:
		p.soon = time.AfterFunc(fewAfter, p.reduce)
	case yes:
		if p.soon != nil {
			p.soon.Stop()
			p.soon = nil
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
	if p.soon == nil {
		return // it listens after all
	}
	p.soon = nil
	p.few = true
	runtime.GOMAXPROCS(1)
}
