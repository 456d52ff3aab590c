// Package list is a doubly linked list whose links are part of its elements, so
// that neither joining nor leaving a list allocates.
package list

import "iter"

// Node is the links of an element, which embeds it: one that is in one List at
// most.
type Node[T any] struct{ next, prev *T }

func (n *Node[T]) node() *Node[T] { return n }

// Element is a pointer to a T that embeds a Node[T].
type Element[T any] interface {
	*T
	node() *Node[T]
}

// List is a list of elements. The zero value is empty.
type List[T any, P Element[T]] struct{ first, last *T }

// First is the element that was pushed first, or nil.
func (l *List[T, P]) First() *T { return l.first }

// Last is the element that was pushed last, or nil.
func (l *List[T, P]) Last() *T { return l.last }

// Push appends x, which must be in no list.
func (l *List[T, P]) Push(x *T) {
	if P(x).node().prev = l.last; l.last == nil {
		l.first = x
	} else {
		P(l.last).node().next = x
	}
	l.last = x
}

// Remove removes x, which must be in l.
func (l *List[T, P]) Remove(x *T) {
	n := P(x).node()
	if n.prev == nil {
		l.first = n.next
	} else {
		P(n.prev).node().next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		P(n.next).node().prev = n.prev
	}
	*n = Node[T]{}
}

// All are the elements, first to last. The one that is being visited may be
// removed or pushed again.
func (l *List[T, P]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for x := l.first; x != nil; {
			next := P(x).node().next
			if !yield(x) {
				return
			}
			x = next
		}
	}
}
