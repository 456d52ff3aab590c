package http2

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/atomic"
)

// copyBytes is how much of an answer's body is passed on at once.
const copyBytes = 32 << 10

// maxFreeCopies bounds what stays behind after a burst: 64 × 32 KiB.
const maxFreeCopies = 64

// copyBuffers keeps buffers for bodies. A sync.Pool would lose them with each
// collection, and collections are frequent while the heap is small.
type copyBuffers struct {
	mu   sync.Mutex
	free []*[copyBytes]byte
}

func (c *copyBuffers) get() *[copyBytes]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	return new([copyBytes]byte)
}

func (c *copyBuffers) put(b *[copyBytes]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < maxFreeCopies {
		c.free = append(c.free, b)
	}
}

// ballastBytes is what the heap counts as live beyond what is. The library
// allocates some 10 KiB for each request; with a live heap of 2 MiB that would
// mean a collection for every few hundred, which also empties its pools. The
// memory is never touched, so it costs address space only; the garbage that
// may pile up between two collections grows by as much.
const ballastBytes = 8 << 20

// ballast comes with the first connection.
type ballast struct {
	once sync.Once
	load []byte
}

func (b *ballast) take() { b.once.Do(func() { b.load = make([]byte, ballastBytes) }) }

// dateCache is the value of Date, formatted once a second.
type dateCache struct{ made atomic.Pointer[dated] }

type dated struct {
	second int64
	value  []string
}

func (d *dateCache) value() []string {
	t := time.Now()
	if v := d.made.Load(); v != nil && v.second == t.Unix() {
		return v.value
	}
	v := &dated{t.Unix(), []string{t.UTC().Format(http.TimeFormat)}}
	d.made.Store(v)
	return v.value
}
