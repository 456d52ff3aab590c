package http1

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// starvePause is how often the first of those who lack a descriptor looks
// whether another loop has given one back. Its own loop tells.
const starvePause = int64(10 * time.Millisecond)

// starve waits for a connection that somebody else gives back: there is no
// descriptor for another one. Those who wait are served in the order of their
// arrival, for as long as their clocks allow.
func (w *worker) starve() (*upstream, gate.Outcome) {
	p := &w.eng.up
	p.starving = append(p.starving, w)
	defer p.fed(w)
	for {
		if w.conn.gone() || w.eng.loop.Closing() {
			return nil, gate.ClientGone
		}
		if o := w.clocks.Expired(w.now()); o != gate.Served {
			return nil, o
		}
		if p.starving[0] != w {
			w.task.Wait(w.clocks.Next())
			continue
		}
		if u := p.get(w.again()); u != nil {
			u.sock.Handle(w.task)
			return u, gate.Served
		}
		if len(p.idle) > 0 {
			p.idle[0].close() // too old for this request; its descriptor is not
		}
		u, why := w.dial(w.clocks.Next())
		switch {
		case u != nil || why != gate.Served:
			return u, why
		case p.down != 0:
			return w.hold()
		}
		w.task.Wait(gate.Earliest(w.clocks.Next(), w.now()+starvePause))
	}
}

// fed takes w out of the line; whoever is first now looks.
func (p *upstreamPool) fed(w *worker) {
	for i, s := range p.starving {
		if s == w {
			if i == 0 {
				p.starving[0], p.starving = nil, p.starving[1:]
			} else {
				p.starving = append(p.starving[:i], p.starving[i+1:]...)
			}
			break
		}
	}
	p.feed()
}

// feed lets the first in line look for a connection.
func (p *upstreamPool) feed() {
	if len(p.starving) > 0 {
		p.starving[0].task.Wake()
	}
}
