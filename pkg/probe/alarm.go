package probe

import "time"

// Alarm ends a long pause between two checks.
//
// A Go timer causes work in an idle process: the kernel may end a wait of 30 s up to 30
// ms late (epoll_wait rounds by 0.1 %), and during this time the runtime's monitor
// looks for the expired timer, up to 50 times at intervals of 20 µs.
type Alarm interface {
	// C returns a channel of capacity 1 that receives when the alarm fires.
	C() <-chan struct{}
	// Set makes it fire once after d, and replaces the previous time; 0 = do not fire.
	Set(d time.Duration) error
	// Stop releases the alarm.
	Stop()
}

// longPause is the shortest pause for which an Alarm is used.
const longPause = 500 * time.Millisecond

// pauses waits between the checks of a container: with a Go timer, and for long pauses
// with an Alarm if possible.
type pauses struct {
	timer    *time.Timer
	newAlarm func() (Alarm, error) // nil: do not use alarms
	alarm    Alarm
	fired    <-chan struct{} // of the alarm; nil without one
	set      bool            // the alarm will fire
}

func newPauses(newAlarm func() (Alarm, error)) *pauses {
	return &pauses{timer: time.NewTimer(0), newAlarm: newAlarm}
}

// begin makes timer or fired receive after d. A previous begin may still cause one
// receive.
func (p *pauses) begin(d time.Duration) {
	if d >= longPause && p.useAlarm(d) {
		p.timer.Stop()
		return
	}
	if p.set {
		p.set = false
		_ = p.alarm.Set(0) // otherwise it would fire once without need
	}
	p.timer.Reset(d)
}

// useAlarm reports whether the alarm was set for the pause.
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
