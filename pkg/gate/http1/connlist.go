package http1

import "go.uber.org/atomic"

// connList is a list of client connections. Those that wait stand in the order
// in which they began to.
type connList struct {
	first, last *conn
	count       *atomic.Int64 // of those in it, on all loops; nil: nobody counts
}

func (l *connList) push(c *conn) {
	if c.list = l; l.count != nil {
		l.count.Inc()
	}
	if c.prev = l.last; c.prev != nil {
		c.prev.next = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *connList) remove(c *conn) {
	if l.count != nil {
		l.count.Dec()
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.next, c.prev = nil, nil
}

// moveTo makes c the last one in l to have begun to wait.
func (c *conn) moveTo(l *connList) {
	c.since = c.eng.loop.Now()
	if c.list != l || l.last != c {
		c.list.remove(c)
		l.push(c)
	}
}
