package load

// A pace is a constant rate of requests. Each request is due at a multiple of the
// interval, regardless of when earlier requests end.
type pace struct {
	interval float64 // nanoseconds
	offset   float64 // delay of the first request, as a fraction of the interval
	begin    int64
	count    int64
}

// next returns the time at which the next request is due. The time is a reading of
// package clock.
func (p *pace) next() int64 {
	return p.begin + int64((float64(p.count)+p.offset)*p.interval)
}

// A ring is a queue. It allocates only when it grows.
type ring[T any] struct {
	items []T
	first int
	count int
}

func (r *ring[T]) len() int { return r.count }

func (r *ring[T]) push(item T) {
	if r.count == len(r.items) {
		grown := make([]T, max(64, 2*len(r.items)))
		n := copy(grown, r.items[r.first:])
		copy(grown[n:], r.items[:r.first])
		r.items, r.first = grown, 0
	}
	r.items[(r.first+r.count)%len(r.items)] = item
	r.count++
}

// pop removes the oldest item of a ring that is not empty.
func (r *ring[T]) pop() T {
	item := r.items[r.first]
	r.first = (r.first + 1) % len(r.items)
	r.count--
	return item
}
