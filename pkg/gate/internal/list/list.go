// Package list implements a doubly linked list with links in its elements, so that no
// operation allocates.
package list

import "iter"

// Node holds the links of the element that embeds it. An element can be in one List only.
type Node[T any] struct{ next, prev *T }

func (n *Node[T]) node() *Node[T] { return n }

// Element is a pointer to a T that embeds a Node[T].
type Element[T any] interface {
	*T
	node() *Node[T]
}

// List is a list of elements. The zero value is empty.
type List[T any, P Element[T]] struct{ first, last *T }

// First returns the element that was pushed first; nil = the list is empty.
func (l *List[T, P]) First() *T { return l.first }

// Last returns the element that was pushed last; nil = the list is empty.
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

// All yields the elements, first to last. The yielded element may be removed or pushed
// again.
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
