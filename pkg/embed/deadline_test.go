package embed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// newDeadline returns a context x that ends after the duration d. The returned function
// leave cancels the parent of x.
func newDeadline(t *testing.T, d time.Duration) (x *deadline, leave context.CancelFunc) {
	parent, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	x = new(deadline)
	x.begin(parent, time.Now().Add(d))
	t.Cleanup(leave)
	return x, leave
}

func wantErr(t *testing.T, x context.Context, want error) {
	t.Helper()
	if err := x.Err(); err != want {
		t.Errorf("error %v, want %v", err, want)
	}
	select {
	case <-x.Done():
		if want == nil {
			t.Error("done")
		}
	default:
		if want != nil {
			t.Error("not done")
		}
	}
	if x.Value(key{}) != "value" {
		t.Error("the value is lost")
	}
}

func TestADeadlineEndsItsContextWithAndWithoutWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited, _ := newDeadline(t, time.Second)
		asked, _ := newDeadline(t, time.Second)
		child, cancel := context.WithCancel(waited)
		defer cancel()
		wantErr(t, child, nil)
		if asked.Err() != nil || asked.timed != nil {
			t.Error("a look costs a timer")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, x := range []context.Context{waited, child, asked} {
			wantErr(t, x, context.DeadlineExceeded)
		}
		if !waited.expired() || !asked.expired() {
			t.Error("not expired")
		}
	})
}

func TestADisconnectDoesNotCountAsAnExpiredDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, leave := newDeadline(t, time.Second)
		leave()
		wantErr(t, x, context.Canceled)
		time.Sleep(2 * time.Second)
		wantErr(t, x, context.Canceled)
		if x.expired() {
			t.Error("expired")
		}
	})
}

func TestAContextEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited, _ := newDeadline(t, time.Second)
		wantErr(t, waited, nil)
		late, _ := newDeadline(t, time.Second)
		waited.stop()
		late.stop()
		wantErr(t, waited, context.Canceled)
		wantErr(t, late, context.Canceled)
	})
}

func TestARequestContextHasTheEarlierDeadlineOfGateAndParentContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		x := new(deadline)
		x.begin(parent, time.Now().Add(time.Hour))
		if at, ok := x.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("deadline in %s", time.Until(at))
		}
	})
}
