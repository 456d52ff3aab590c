package exchange

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/atomic"
)

// idleSet is a set of idle connections of one rank.
type idleSet struct {
	d      *Descriptors
	rank   Idleness
	since  []int64 // times at which the open connections became idle
	closed []int64 // for each closed connection, the time at which it became idle
	busy   bool    // the next call of Oldest does not reply before the test calls reply
	reply  func()
}

func (s *idleSet) Oldest(found func(IdleConnection, bool)) {
	if s.busy {
		s.busy = false
		s.reply = func() { s.Oldest(found) }
		return
	}
	if len(s.since) == 0 {
		found(IdleConnection{}, false)
		return
	}
	found(IdleConnection{s.rank, slices.Min(s.since)}, true)
}

func (s *idleSet) CloseOldest(rank Idleness) {
	if rank != s.rank {
		panic("the rank differs from that of Oldest")
	}
	oldest := slices.Min(s.since)
	s.since = slices.DeleteFunc(s.since, func(t int64) bool { return t == oldest })
	s.closed = append(s.closed, oldest)
	s.d.Release()
}

// newDescriptors returns an exhausted budget of n descriptors.
func newDescriptors(t *testing.T, n int, sets ...*idleSet) *Descriptors {
	t.Helper()
	d := NewDescriptors(n)
	for _, s := range sets {
		s.d = d
		d.Add(s)
	}
	for range n {
		if !d.TryAcquire() {
			t.Fatal("the budget is smaller than requested")
		}
	}
	return d
}

func TestTheOldestConnectionOfTheLowestRankIsClosedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heads := &idleSet{rank: PartialHead, since: []int64{1, 2}}
		one := &idleSet{rank: IdleClient, since: []int64{10, 13, 14}}
		other := &idleSet{rank: IdleClient, since: []int64{12, 11}}
		upstreams := &idleSet{rank: IdleUpstream, since: []int64{20}}
		d := newDescriptors(t, 8, heads, one, other, upstreams)
		for i := range 8 {
			if d.TryAcquire() {
				t.Fatalf("%d: acquired beyond the budget", i)
			}
			notified := false
			d.Await(func() { notified = true })
			d.Reclaim()
			if !notified || !d.TryAcquire() {
				t.Fatalf("%d: notified %v", i, notified)
			}
		}
		for _, c := range []struct {
			set  *idleSet
			want []int64
		}{{upstreams, []int64{20}}, {one, []int64{10, 13, 14}}, {other, []int64{11, 12}}, {heads, []int64{1, 2}}} {
			if !slices.Equal(c.set.closed, c.want) {
				t.Errorf("closed %v, want %v", c.set.closed, c.want)
			}
		}
		if d.Free() != 0 {
			t.Errorf("%d free", d.Free())
		}
	})
}

func TestAReclaimForSeveralWaitersClosesOnlyOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &idleSet{rank: IdleClient, since: []int64{1, 2, 3}}
		busy := &idleSet{busy: true}
		d := newDescriptors(t, 3, set, busy)
		var notified atomic.Int32
		for range 3 {
			d.Await(func() { notified.Inc() })
			d.Reclaim()
		}
		if notified.Load() != 0 || len(set.closed) != 0 {
			t.Fatalf("closed %v before all sets have replied", set.closed)
		}
		busy.reply()
		if notified.Load() != 3 || len(set.closed) != 1 {
			t.Errorf("%d notified, closed %v", notified.Load(), set.closed)
		}
	})
}

func TestADescriptorWaiterIsNotifiedEvenIfAConnectionSetDoesNotReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &idleSet{rank: IdleClient, since: []int64{1, 2, 3}}
		busy := &idleSet{busy: true}
		d := newDescriptors(t, 3, set, busy)
		var notified atomic.Int32
		d.Await(func() { notified.Inc() })
		d.Reclaim()
		time.Sleep(retryInterval)
		synctest.Wait()
		if notified.Load() != 1 || len(set.closed) != 0 {
			t.Fatalf("%d notified, closed %v", notified.Load(), set.closed)
		}
		d.Await(func() { notified.Inc() })
		// The last set replies too late. The waiter for which the reclaim began has
		// already been notified, so no connection may be closed.
		busy.reply()
		if len(set.closed) != 0 {
			t.Errorf("closed %v for a waiter that had been notified", set.closed)
		}
		d.Reclaim()
		if notified.Load() != 2 || len(set.closed) != 1 {
			t.Errorf("%d notified, closed %v", notified.Load(), set.closed)
		}
	})
}

func TestAReleaseNotifiesAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDescriptors(t, 2)
		start := time.Now()
		var notified atomic.Int32
		for range 5 {
			d.Await(func() { notified.Inc() })
		}
		d.Release()
		if notified.Load() != 5 || time.Since(start) != 0 {
			t.Errorf("%d notified after %s", notified.Load(), time.Since(start))
		}
		d.Await(func() { notified.Inc() }) // notified after retryInterval, because nothing is released
		time.Sleep(retryInterval)
		synctest.Wait()
		if notified.Load() != 6 {
			t.Errorf("%d notified, want 6", notified.Load())
		}
	})
}

func TestTheDefaultBudgetIsDerivedFromTheProcessLimit(t *testing.T) {
	d := NewDescriptors(0)
	if d.Budget() < minDescriptors || d.Free() != d.Budget() {
		t.Errorf("budget %d, free %d", d.Budget(), d.Free())
	}
	d.Reserve(3)
	if d.Free() != d.Budget()-3 {
		t.Errorf("budget %d, free %d after 3 were reserved", d.Budget(), d.Free())
	}
}
