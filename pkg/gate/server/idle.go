package server

import (
	"iter"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
)

// IdleConn is a pointer to a client's connection T, which embeds a Waiting.
type IdleConn[T any, P IdleConn[T, P]] interface {
	list.Element[T]
	IdleNode() *Idle[T, P]
	// Busy reports that a request is under way.
	Busy() bool
	// Quiet reports that no bytes have come that a request may begin with.
	Quiet() bool
	// Reclaim closes the connection.
	Reclaim()
}

// Idle is what a connection of an IdleSet embeds.
type Idle[T any, P IdleConn[T, P]] struct {
	list.Node[T]
	set   *IdleSet[T, P]
	Since int64 // when it began to wait, on the loop's clock
}

// IdleNode returns w, for an IdleSet.
func (w *Idle[T, P]) IdleNode() *Idle[T, P] { return w }

// Set is the set that the connection is in, or nil.
func (w *Idle[T, P]) Set() *IdleSet[T, P] { return w.set }

// IdleSet holds connections of one loop in the order in which they began to wait,
// those that are busy anywhere. The one that has waited longest may be closed to
// free its descriptor, unless it has waited for less than a minimum. Init comes
// before use.
type IdleSet[T any, P IdleConn[T, P]] struct {
	worker  *Worker
	minIdle int64 // of time to wait, in ns
	conns   list.List[T, P]
	// Count, if not nil, is increased by one for each connection in the set.
	Count *atomic.Int64
}

// Init makes s a set whose connections w may close after they have waited for
// least, in the order of their rank.
func (s *IdleSet[T, P]) Init(w *Worker, rank exchange.Idleness, least time.Duration) {
	s.worker, s.minIdle = w, int64(least)
	w.AddIdleSource(rank, s.reclaimable)
}

// First returns a connection of s; nil = s is empty. If no connection is busy, it is the
// longest idle one.
func (s *IdleSet[T, P]) First() *T { return s.conns.First() }

// All yields the connections. The connection that is yielded may be removed.
func (s *IdleSet[T, P]) All() iter.Seq[*T] { return s.conns.All() }

// Touch makes c, which may be in s or in another set, the last one in s to have
// begun to wait.
func (s *IdleSet[T, P]) Touch(c *T) {
	w := P(c).IdleNode()
	w.Since = s.worker.Loop.Now()
	if w.set == s && s.conns.Last() == c {
		return
	}
	if w.set != nil {
		w.set.Remove(c)
	}
	w.set = s
	s.conns.Push(c)
	if s.Count != nil {
		s.Count.Inc()
	}
}

// Remove takes c, which must be in s, out of it.
func (s *IdleSet[T, P]) Remove(c *T) {
	P(c).IdleNode().set = nil
	s.conns.Remove(c)
	if s.Count != nil {
		s.Count.Dec()
	}
}

// oldest is the connection that is to be closed first, or nil. Busy ones are moved
// to the end.
func (s *IdleSet[T, P]) oldest() *T {
	var moved *T // the first of those
	for c := range s.conns.All() {
		switch {
		case c == moved:
			return nil
		case P(c).Busy():
			if moved == nil {
				moved = c
			}
			s.conns.Remove(c)
			s.conns.Push(c)
		case s.worker.Loop.Now()-P(c).IdleNode().Since < s.minIdle:
			return nil
		case P(c).Quiet():
			return c
		}
	}
	return nil
}

// reclaimable is the IdleSource of s.
func (s *IdleSet[T, P]) reclaimable() (since int64, reclaim func()) {
	c := s.oldest()
	if c == nil {
		return 0, nil
	}
	return P(c).IdleNode().Since, P(c).Reclaim
}

// IdleSource tells, on the loop, when the connection to be closed first began to
// wait, and how it is closed, at once or never: bytes may come. reclaim is nil if
// there is none.
type IdleSource func() (since int64, reclaim func())

// idleSources are the sources of a worker, by rank. A worker is
// exchange.IdleConnections: it tells of all of them at once.
type idleSources [exchange.UnfinishedHead + 1][]IdleSource

// AddIdleSource lets w close the connections that s tells of, which have the rank.
func (w *Worker) AddIdleSource(rank exchange.Idleness, s IdleSource) {
	w.idle[rank] = append(w.idle[rank], s)
}

// oldest is what the sources of the rank tell of the connection to be closed first.
func (w *Worker) oldest(rank exchange.Idleness) (since int64, reclaim func()) {
	for _, s := range w.idle[rank] {
		if t, f := s(); f != nil && (reclaim == nil || t < since) {
			since, reclaim = t, f
		}
	}
	return since, reclaim
}

// Oldest implements exchange.IdleConnections.
func (w *Worker) Oldest(found func(exchange.IdleConnection, bool)) {
	w.Loop.Post(func() {
		for rank := range exchange.Idleness(len(w.idle)) {
			if since, reclaim := w.oldest(rank); reclaim != nil {
				found(exchange.IdleConnection{Idleness: rank, Since: since}, true)
				return
			}
		}
		found(exchange.IdleConnection{}, false)
	})
}

// CloseOldest implements exchange.IdleConnections.
func (w *Worker) CloseOldest(rank exchange.Idleness) {
	w.Loop.Post(func() {
		if _, reclaim := w.oldest(rank); reclaim != nil {
			reclaim()
		}
	})
}
