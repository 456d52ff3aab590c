package statuspage

import (
	"context"
	"net/http"
	"time"
)

// Limits of the stream.
const (
	maxViewers   = 8
	writeTimeout = 5 * time.Second // a viewer is disconnected if a write takes longer

	// lastWriteTimeout replaces writeTimeout after the page has been closed. It is
	// shorter, because the exit of the process waits for the last event.
	lastWriteTimeout = 500 * time.Millisecond
)

// sent identifies the newest data in a message.
type sent struct {
	second  int64
	changes uint64
	errors  uint64

	generation uint64 // SettingsStats.Generation of the settings that were sent last
}

// frame is a message to all viewers. Old frames are not kept, so a viewer that missed
// a frame gets a full message.
type frame struct {
	number   uint64
	text     []byte
	followed chan struct{} // closed when there is a newer frame
}

func newFrame(number uint64) *frame {
	return &frame{number: number, followed: make(chan struct{})}
}

// publish creates the next frame. The sampler calls it each second.
func (p *Page) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers == 0 {
		return
	}
	f := newFrame(p.latest.number + 1)
	f.text = p.message(false, &p.last)
	close(p.latest.followed)
	p.latest = f
}

// enter adds a viewer. It returns false if the page already has maxViewers viewers.
func (p *Page) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers == maxViewers {
		return false
	}
	p.viewers++
	p.cfg.History.watch()
	return true
}

func (p *Page) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers--
	p.cfg.History.unwatch()
}

func (p *Page) newest() *frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "eight pages are open already", http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(text []byte) bool {
		event := append(append([]byte("data: "), text...), "\n\n"...)
		limit := writeTimeout
		if p.ended.Load() {
			limit = lastWriteTimeout
		}
		_ = out.SetWriteDeadline(time.Now().Add(limit))
		_, err := w.Write(event)
		return err == nil && out.Flush() == nil
	}
	seen := p.newest()
	ok := send(p.message(true, new(sent)))
	for ok && p.await(r.Context(), seen) {
		f := p.newest()
		text := f.text
		if f.number != seen.number+1 {
			text = p.message(true, new(sent))
		}
		seen, ok = f, send(text)
	}
}

// await waits for the frame after f. It returns false if the viewer disconnects, or
// if the page is closed and f was the last frame.
func (p *Page) await(viewer context.Context, f *frame) bool {
	select {
	case <-viewer.Done():
		return false
	case <-f.followed:
		return true
	case <-p.closed:
	}
	select {
	case <-f.followed:
		return true
	default:
		return false
	}
}
