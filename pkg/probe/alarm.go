package probe

import "time"

// Alarm wakes a checker at the end of a long pause between two checks.
//
// It exists because a Go timer causes work in an idle process. The kernel may end a
// wait of 30 s up to 30 ms late (epoll_wait rounds by 0.1 %). During these 30 ms the
// runtime's monitor looks for the expired timer up to 50 times, at intervals of 20 µs.
type Alarm interface {
	// C returns a channel of capacity 1. It receives a value when the alarm fires.
	C() <-chan struct{}
	// Set makes the alarm fire once after d, instead of at the previously set time.
	// With 0 it does not fire.
	Set(d time.Duration) error
	// Stop releases the alarm.
	Stop()
}

// longPause is the shortest pause for which an Alarm is used.
const longPause = 500 * time.Millisecond

// pauses waits between the checks of a container. It uses a Go timer for short pauses,
// and an Alarm for long ones if there is one.
type pauses struct {
	timer    *time.Timer
	newAlarm func() (Alarm, error) // nil = use only Go timers
	alarm    Alarm
	fired    <-chan struct{} // channel of the alarm; nil = no alarm
	set      bool            // the alarm will fire
}

func newPauses(newAlarm func() (Alarm, error)) *pauses {
	return &pauses{timer: time.NewTimer(0), newAlarm: newAlarm}
}

// begin makes timer or fired receive a value after d. A value of the previous begin may
// also still arrive.
func (p *pauses) begin(d time.Duration) {
	if d >= longPause && p.useAlarm(d) {
		p.timer.Stop()
		return
	}
	if p.set {
		p.set = false
		_ = p.alarm.Set(0) // otherwise the alarm would fire without need
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
