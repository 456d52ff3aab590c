package admission

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/atomic"
)

func TestNoRequestOfABurstThatDrainsIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Config{Limit: 20, CapacityPerSlot: 10, ShedStanding: true})
		var shed atomic.Int64
		arrive := func() {
			w := &Waiter{}
			woken := make(chan struct{}, 1)
			w.Notify = func() { woken <- struct{}{} }
			switch v := a.Acquire(w); {
			case v == Queued:
				<-woken
			case v == Rejected:
				t.Error("the queue is full")
				return
			}
			if w.Expired() {
				shed.Inc()
				return
			}
			time.Sleep(time.Second)
			a.Release()
		}
		for range 200 {
			go arrive()
		}
		for range 80 { // further requests arrive at half of the rate that the container can serve
			time.Sleep(100 * time.Millisecond)
			go arrive()
		}
		time.Sleep(time.Minute)
		if n := shed.Load(); n != 0 || a.InFlight() != 0 || a.QueueDepth() != 0 {
			t.Errorf("%d requests were shed; %d in flight, %d queued", n, a.InFlight(), a.QueueDepth())
		}
	})
}

func TestTheOldestRequestsOfAStandingQueueAreShedFirst(t *testing.T) {
	now := int64(0)
	a := New(Config{Limit: 2, CapacityPerSlot: 10, ShedStanding: true, Clock: func() int64 { return now }})
	var log []string
	waiters := map[string]*Waiter{}
	arrive := func(name string) {
		w := &Waiter{}
		w.Notify = func() {
			if w.Expired() {
				name += " shed"
			}
			log = append(log, name)
		}
		waiters[name] = w
		if v := a.Acquire(w); (v == Queued) != (len(waiters) > 2) {
			t.Fatalf("%s: %v", name, v)
		}
	}
	for i := range 7 { // 0 and 1 get the slots
		arrive(fmt.Sprint(i))
	}
	// Two slots are handed over in each of two windows. Requests 7 and 8 arrive in the
	// first window, and request 9 arrives in the second window.
	for i := range 4 {
		now = standingWindow * int64(1+i/2)
		a.Release()
		if i < 3 {
			arrive(fmt.Sprint(7 + i))
		}
	}
	// Requests 5 to 9 were queued at the last release, when the queue became standing.
	// Requests 5 to 8 had been queued for longer than standingTarget. A standing queue
	// keeps one request per slot, so two are not shed: 8, which gets the slot, and 9.
	if want := []string{"2", "3", "4", "5 shed", "6 shed", "7 shed", "8"}; !slices.Equal(log, want) || a.QueueDepth() != 1 || a.InFlight() != 2 {
		t.Errorf("%q, %d queued, %d in flight, want %q", log, a.QueueDepth(), a.InFlight(), want)
	}
	for _, name := range []string{"5", "6", "7"} {
		if !a.Withdraw(waiters[name]) {
			t.Errorf("%s holds a slot", name)
		}
	}
	// Request 9 gets the slot. The queue is then empty, so it is no longer standing.
	a.Release()
	for i := range 6 {
		arrive(fmt.Sprint(10 + i))
	}
	now += 2*standingTarget - 1
	a.Release()
	if log[len(log)-1] != "10" {
		t.Errorf("%q", log)
	}
}
