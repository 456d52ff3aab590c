package probe

import "time"

// An Alarm ends a long pause between two probes.
//
// A timer of the Go runtime would do, but it makes an idle process work: the
// kernel may end a wait of 30 s up to 30 ms late (epoll_wait rounds by 0.1 %),
// and for all this time the runtime's monitor searches, up to 50 times at
// intervals of 20 µs, for the timer that should have run.
type Alarm interface {
	// C receives when the alarm fires. It holds one.
	C() <-chan struct{}
	// Set makes it fire once after d, and not at the time set before; 0 = not
	// at all.
	Set(d time.Duration) error
	// Stop ends it for good.
	Stop()
}

// longPause is from where on a pause is left to an Alarm.
const longPause = 500 * time.Millisecond

// pauses is what a container's loop waits on: the runtime's timer, and for
// long pauses an Alarm if it can have one.
type pauses struct {
	timer    *time.Timer
	newAlarm func() (Alarm, error) // nil: never, or no more
	alarm    Alarm
	fired    <-chan struct{} // of the alarm; nil without one
	set      bool            // the alarm will fire
}

func newPauses(newAlarm func() (Alarm, error)) *pauses {
	return &pauses{timer: time.NewTimer(0), newAlarm: newAlarm}
}

// begin lets timer or fired receive after d. What was begun before may still
// be received once.
func (p *pauses) begin(d time.Duration) {
	if d >= longPause && p.useAlarm(d) {
		p.timer.Stop()
		return
	}
	if p.set {
		p.set = false
		_ = p.alarm.Set(0) // else it fires once for nothing
	}
	p.timer.Reset(d)
}

// useAlarm leaves a pause to the alarm, if there is one.
func (p *pauses) useAlarm(d time.Duration) bool {
	if p.alarm == nil && p.newAlarm != nil {
		alarm, err := p.newAlarm()
		if err != nil {
			p.newAlarm = nil
			return false
		}
		p.alarm, p.fired = alarm, alarm.C()
	}
	if p.alarm == nil || p.alarm.Set(d) != nil {
		return false
	}
	p.set = true
	return true
}

func (p *pauses) end() {
	p.timer.Stop()
	if p.alarm != nil {
		p.alarm.Stop()
	}
}
