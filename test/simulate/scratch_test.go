package simulate

import "sync"

// scratch is memory that later runs reuse. Otherwise most allocations of a run would
// become garbage at its end.
type scratch struct {
	events   eventHeap
	requests list[request]
	links    list[link]
	peers    list[upPeer]
	texts    [][]byte // memory for texts
	chunk    int      // chunk in use
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// list is a free list. The elements in all[:used] are in use; the others are free.
type list[T any] struct {
	all  []*T
	used int
}

func (l *list[T]) next() *T {
	if l.used == len(l.all) {
		l.all = append(l.all, new(T))
	}
	l.used++
	return l.all[l.used-1]
}

func (s *scratch) request() *request {
	q := s.requests.next()
	*q = request{}
	return q
}

func (s *scratch) link() *link {
	c := s.links.next()
	up, down := c.moveUp, c.moveDown
	if up == nil {
		up, down = c.deliverUp, c.deliverDown
	}
	*c = link{moveUp: up, moveDown: down, toRead: emptied(c.toRead), out: emptied(c.out), ownBuffer: emptied(c.ownBuffer), log: c.log[:0]}
	return c
}

func (s *scratch) peer() *upPeer {
	u := s.peers.next()
	m := message{base: emptied(u.m.base), fields: u.m.fields[:0]}
	*u = upPeer{m: m}
	return u
}

// emptied returns b without its content, or nil if b has grown too large.
func emptied(b []byte) []byte {
	if cap(b) > 32<<10 {
		return nil
	}
	return b[:0]
}

const textChunk = 1 << 20

// text returns an empty buffer for about n bytes. The caller must pass the filled buffer
// to keep before the next call of text.
func (s *scratch) text(n int) []byte {
	n += 8 << 10
	for {
		if s.chunk == len(s.texts) {
			s.texts = append(s.texts, make([]byte, 0, max(n, textChunk)))
		}
		if t := s.texts[s.chunk]; cap(t)-len(t) >= n {
			return t[len(t):]
		}
		s.chunk++
	}
}

// keep reserves the memory of a buffer until the end of the run.
func (s *scratch) keep(b []byte) []byte {
	t := &s.texts[s.chunk]
	if n := len(*t); n+len(b) <= cap(*t) && &(*t)[:n+1][n] == &b[:1][0] {
		*t = (*t)[:n+len(b)]
	}
	return b[:len(b):len(b)]
}

// reset makes all memory free.
func (s *scratch) reset() {
	clear(s.events)
	s.events = s.events[:0]
	s.requests.used, s.links.used, s.peers.used, s.chunk = 0, 0, 0, 0
	s.texts = s.texts[:min(len(s.texts), 16)]
	for i := range s.texts {
		s.texts[i] = s.texts[i][:0]
	}
	scratches.Put(s)
}
