package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct {
	Node[item]
	in bool
}

// The same random operations are applied to a list and a slice.
func TestALinkedListHasTheSameElementsAsASliceAfterRandomOperations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l List[item, *item]
	var want []*item
	items := make([]item, 8)
	for range 10_000 {
		x := &items[rng.IntN(len(items))]
		if x.in = !x.in; x.in {
			l.Push(x)
			want = append(want, x)
		} else {
			l.Remove(x)
			want = slices.DeleteFunc(want, func(y *item) bool { return x == y })
		}
		var back []*item
		for y := l.Last(); y != nil; y = y.prev {
			back = append(back, y)
		}
		slices.Reverse(back)
		if got := slices.Collect(l.All()); !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Fatalf("%v and %v, want %v", got, back, want)
		}
		if len(want) > 0 && l.First() != want[0] {
			t.Fatalf("%p is first, want %p", l.First(), want[0])
		}
	}
}

func TestAnElementMayBeRemovedOrMovedWhileVisited(t *testing.T) {
	var l List[item, *item]
	items := make([]item, 6)
	for i := range items {
		l.Push(&items[i])
	}
	visits := 0
	for x := range l.All() {
		if visits++; visits > 2*len(items) {
			t.Fatal("the iteration does not end")
		}
		if l.Remove(x); visits%2 == 0 && visits <= len(items) {
			l.Push(x)
		}
	}
	if l.First() != nil || visits != len(items)+3 {
		t.Errorf("%d visits, %p is left", visits, l.First())
	}
}
