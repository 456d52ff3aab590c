package server

import (
	"iter"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/internal/list"
)

// IdleConn is a pointer to a client connection T, which embeds an Idle.
type IdleConn[T any, P IdleConn[T, P]] interface {
	list.Element[T]
	IdleNode() *Idle[T, P]
	// Busy reports whether a request is in progress.
	Busy() bool
	// Quiet reports whether no bytes of a request have been received.
	Quiet() bool
	// Reclaim closes the connection.
	Reclaim()
}

// Idle is embedded by the connections of an IdleSet.
type Idle[T any, P IdleConn[T, P]] struct {
	list.Node[T]
	set   *IdleSet[T, P]
	Since int64 // time at which the connection became idle, on the loop's clock
}

// IdleNode returns w, for an IdleSet.
func (w *Idle[T, P]) IdleNode() *Idle[T, P] { return w }

// Set returns the set that contains the connection; nil = none.
func (w *Idle[T, P]) Set() *IdleSet[T, P] { return w.set }

// IdleSet holds connections of one loop. They are in the order in which they became idle,
// but busy connections may be at any position. To free a descriptor, the worker may close
// the connection that has been idle for longest, if it has been idle for the minimum
// time. Call Init before use.
type IdleSet[T any, P IdleConn[T, P]] struct {
	worker  *Worker
	minIdle int64 // minimum idle time, in ns
	conns   list.List[T, P]
	// Count, if not nil, counts the connections in this set and in other sets with the
	// same counter.
	Count *atomic.Int64
}

// Init registers s with w, so that w may close the connections that have been idle for
// minIdle or longer. Connections of sets with a lower rank are closed first.
func (s *IdleSet[T, P]) Init(w *Worker, rank exchange.Idleness, minIdle time.Duration) {
	s.worker, s.minIdle = w, int64(minIdle)
	w.AddIdleSource(rank, s.reclaimable)
}

// First returns a connection of s; nil = s is empty. If no connection is busy, it is the
// longest idle one.
func (s *IdleSet[T, P]) First() *T { return s.conns.First() }

// Len returns the number of connections. It takes time proportional to that number.
func (s *IdleSet[T, P]) Len() (n int) {
	for range s.conns.All() {
		n++
	}
	return n
}

// All iterates over the connections. The body of a for statement may remove the
// connection that it has just got.
func (s *IdleSet[T, P]) All() iter.Seq[*T] { return s.conns.All() }

// Touch marks c as idle from now on and moves it to the end of s. c may be in s, in
// another set, or in none.
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

// Remove removes c, which must be in s.
func (s *IdleSet[T, P]) Remove(c *T) {
	P(c).IdleNode().set = nil
	s.conns.Remove(c)
	if s.Count != nil {
		s.Count.Dec()
	}
}

// oldest returns the connection to close first; nil = none. It moves busy connections to
// the end of the set.
func (s *IdleSet[T, P]) oldest() *T {
	var moved *T // the first busy connection
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

// reclaimable is an IdleSource that finds connections in s.
func (s *IdleSet[T, P]) reclaimable() (since int64, reclaim func()) {
	c := s.oldest()
	if c == nil {
		return 0, nil
	}
	return P(c).IdleNode().Since, P(c).Reclaim
}

// IdleSource finds the connection that should be closed first to free its descriptor. The
// result since is the time at which this connection became idle. The result reclaim is a
// function that closes it, or nil if there is no such connection. The caller must call
// this function immediately or not at all, because bytes of a request may arrive later.
// An IdleSource is called on the loop.
type IdleSource func() (since int64, reclaim func())

// idleSources are the sources of a worker, by rank.
type idleSources [exchange.PartialHead + 1][]IdleSource

// AddIdleSource adds the source s, whose connections w may close to free descriptors.
// Connections of a lower rank are closed first.
func (w *Worker) AddIdleSource(rank exchange.Idleness, s IdleSource) {
	w.idle[rank] = append(w.idle[rank], s)
}

// oldest returns the connection that has been idle for longest among all sources of the
// given rank.
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
				found(exchange.IdleConnection{Idleness: rank, IdleSince: since}, true)
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
