package exchange

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestIdleConnectionsAreReusedAtAnyAgeUntilTheContainerClosesOne(t *testing.T) {
	var a IdleAge
	a.NoteAlive(time.Hour)
	if !a.Trusts(0) || !a.Trusts(24*time.Hour) {
		t.Fatal("a connection is not trusted although none has been closed")
	}
}

func TestConnectionsAreRetiredBeforeTheContainersIdleTimeout(t *testing.T) {
	for _, age := range []time.Duration{5 * ms, 100 * ms, time.Second, 5 * time.Second, time.Minute} {
		rng := rand.New(rand.NewPCG(1, uint64(age)))
		var a IdleAge
		// The container's timer is up to 1 ms late, so each connection is closed at a
		// different age.
		for range 20 {
			a.NoteClose(age + time.Duration(rng.Int64N(int64(ms))))
		}
		if early := age - 4*ms/10; a.Trusts(early) {
			t.Errorf("connections end at %v: one is trusted at %v", age, early)
		}
		if half := age / 2; !a.Trusts(half) {
			t.Errorf("connections end at %v: none is trusted at %v", age, half)
		}
		a.NoteAlive(age + age/10)
		if a.Trusts(age) {
			t.Errorf("connections end at %v: a connection open a little longer removes the limit", age)
		}
	}
}

func TestAnIdleConnectionOpenBeyondTheEstimatedIdleTimeoutRaisesTheEstimate(t *testing.T) {
	var a IdleAge
	// The container closes a connection early, for example because it restarts. This age
	// is not its idle timeout.
	a.NoteClose(ms / 10)
	if a.Trusts(0) {
		t.Fatal("trusted although connections end at once")
	}
	for age := 60 * ms; age < time.Minute; age += 20 * ms {
		a.NoteAlive(age)
		if !a.Trusts(age) || a.Trusts(age+ms) {
			t.Fatalf("seen alive at %v: trusted then %t, a little later %t", age, a.Trusts(age), a.Trusts(age+ms))
		}
	}
	a.NoteClose(2 * time.Minute)
	if !a.Trusts(time.Minute+30*time.Second) || a.Trusts(2*time.Minute) {
		t.Fatal("the limit does not follow the next close")
	}
	a.NoteClose(5 * ms)
	if a.Trusts(5 * ms) {
		t.Fatal("the limit does not follow a shorter timeout of the container")
	}
}
