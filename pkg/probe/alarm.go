package probe

import "time"

// Alarm wakes a checker at the end of a long pause between two checks.
//
// An Alarm replaces a Go timer, because a Go timer costs an idle process more CPU. The Go
// runtime waits for the timer in epoll_wait(2), and the kernel may return from this call
// up to 0.1 % of the pause too late. During this delay, the runtime's monitor thread
// polls, which uses CPU.
type Alarm interface {
	// C returns a channel of capacity 1. It receives a value when the alarm fires.
	C() <-chan struct{}
	// Set makes the alarm fire once after d, and replaces an earlier Set. 0 disarms the
	// alarm.
	Set(d time.Duration) error
	// Stop releases the alarm.
	Stop()
}

// longPause is the shortest pause for which an Alarm is used.
const longPause = 500 * time.Millisecond

// pauses times the pauses between the checks of a container. A short pause uses a Go
// timer. A long pause uses an Alarm if newAlarm can create one.
type pauses struct {
	timer    *time.Timer
	newAlarm func() (Alarm, error) // nil = use only Go timers
	alarm    Alarm
	fired    <-chan struct{} // nil = no alarm
	set      bool            // the alarm is armed
}

func newPauses(newAlarm func() (Alarm, error)) *pauses {
	return &pauses{timer: time.NewTimer(0), newAlarm: newAlarm}
}

// begin starts a pause of the duration d. At its end, timer.C or fired receives a
// value. A value of the previous pause may arrive earlier, so the receiver must compute
// whether a check is really due.
func (p *pauses) begin(d time.Duration) {
	if d >= longPause && p.useAlarm(d) {
		p.timer.Stop()
		return
	}
	if p.set {
		p.set = false
		_ = p.alarm.Set(0) // the timer is used instead
	}
	p.timer.Reset(d)
}

// useAlarm sets the alarm to d and reports whether this succeeded.
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
