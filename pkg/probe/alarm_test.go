package probe

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/queuegate/queuegate/pkg/probe/check"
	"github.com/queuegate/queuegate/pkg/probe/check/checktest"
)

// fakeAlarm records calls of Set. It fires when the test sends on rings.
type fakeAlarm struct {
	rings   chan struct{}
	sets    []time.Duration
	fails   bool
	stopped bool
}

func (a *fakeAlarm) C() <-chan struct{} { return a.rings }

func (a *fakeAlarm) Set(d time.Duration) error {
	if a.fails {
		return errors.New("no")
	}
	a.sets = append(a.sets, d)
	return nil
}

func (a *fakeAlarm) Stop() { a.stopped = true }

func TestTheKernelAlarmFiresOnceAndNotEarly(t *testing.T) {
	a, err := NewKernelAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	if err := a.Set(time.Hour); err != nil {
		t.Fatal(err)
	}
	const d = 20 * time.Millisecond
	from := time.Now()
	if err := a.Set(d); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.C():
	case <-time.After(checktest.FailSafe):
		t.Fatal("it does not ring")
	}
	if took := time.Since(from); took < d {
		t.Errorf("it fired after %v, set to %v", took, d)
	}
}

func TestTheKernelAlarmDoesNotFireAfterItIsSetToZero(t *testing.T) {
	const d = 20 * time.Millisecond
	for late := true; late; { // on a busy machine the alarm may fire before it is set to 0
		a, err := NewKernelAlarm()
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		if err := a.Set(d); err != nil {
			t.Fatal(err)
		}
		if err := a.Set(0); err != nil {
			t.Fatal(err)
		}
		late = time.Since(from) >= d
		select {
		case <-a.C():
			if !late {
				t.Error("it fires although it was set to 0")
			}
		case <-time.After(3 * d):
		}
		a.Stop()
	}
}

func TestLongPausesBetweenChecksUseAKernelAlarmAndShortPausesAGoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alarm := &fakeAlarm{rings: make(chan struct{}, 1)}
		made := 0
		p := newPauses(func() (Alarm, error) { made++; return alarm, nil })
		<-p.timer.C // the first attempt is due at once
		if p.fired != nil {
			t.Error("an alarm was created before the first long pause")
		}
		rings := func() bool {
			time.Sleep(time.Hour)
			select {
			case <-p.timer.C:
				return true
			default:
				return false
			}
		}
		p.begin(longPause - 1)
		if !rings() || made != 0 {
			t.Errorf("a short pause: %d alarms, or the timer does not end it", made)
		}
		p.begin(longPause)
		if rings() {
			t.Error("the timer fires too in a long pause")
		}
		p.begin(time.Millisecond) // the container is woken during the long pause
		if !rings() {
			t.Error("the timer does not end a short pause after a long one")
		}
		p.begin(30 * time.Second)
		p.end()
		if want := []time.Duration{longPause, 0, 30 * time.Second}; made != 1 || !slices.Equal(alarm.sets, want) || !alarm.stopped {
			t.Errorf("%d alarms, set to %v, want %v; stopped: %v", made, alarm.sets, want, alarm.stopped)
		}
	})
}

func TestAGoTimerEndsLongPausesIfNoKernelAlarmCanBeSet(t *testing.T) {
	for name, newAlarm := range map[string]func() (Alarm, error){
		"none":        nil,
		"not created": func() (Alarm, error) { return nil, errors.New("no") },
		"not set":     func() (Alarm, error) { return &fakeAlarm{fails: true}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPauses(newAlarm)
				defer p.end()
				<-p.timer.C
				for range 2 {
					from := time.Now()
					p.begin(time.Minute)
					<-p.timer.C
					if took := time.Since(from); took != time.Minute {
						t.Errorf("the pause took %v", took)
					}
				}
			})
		})
	}
}

func TestAReadyContainerIsProbedWhenTheAlarmFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alarm := &bubbleAlarm{rings: make(chan struct{}, 1)}
		start := time.Now()
		var probes []time.Duration
		r := New(Options{
			Specs:    []Spec{{Container: "app", Checker: alwaysReady{}, Timeout: time.Second, SuccessThreshold: 1}},
			NewAlarm: func() (Alarm, error) { return alarm, nil },
			OnCheck:  func(int, time.Duration) { probes = append(probes, time.Since(start)) },
		})
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(100 * time.Second)
		stop()
		<-done
		// The pauses are 1, 4, 16 and 30 s, each ±10 %.
		if n := len(probes); n < 6 || n > 7 {
			t.Fatalf("probes at %v", probes)
		}
		for i, want := range []time.Duration{1, 4, 16, 30, 30} {
			want *= time.Second
			if got := probes[i+1] - probes[i]; got < want*9/10 || got > want*11/10 {
				t.Errorf("pause %d is %v, want about %v", i, got, want)
			}
		}
		if alarm.rang < 5 {
			t.Errorf("the alarm fired %d times", alarm.rang)
		}
	})
}

type alwaysReady struct{}

func (alwaysReady) Check(context.Context) check.Result { return check.Result{Reached: true} }

// bubbleAlarm is an Alarm that uses the clock of a synctest bubble.
type bubbleAlarm struct {
	rings chan struct{}
	timer *time.Timer
	rang  int
}

func (a *bubbleAlarm) C() <-chan struct{} { return a.rings }
func (a *bubbleAlarm) Stop()              { a.timer.Stop() }
func (a *bubbleAlarm) Set(d time.Duration) error {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(d, func() { a.rang++; a.rings <- struct{}{} })
	return nil
}
