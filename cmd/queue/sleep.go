package main

import (
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/application"
)

// sleepState is the state of an application that sleeps when it is idle:
//
//	awake      → suspending  no request has been open for IDLE_STOP, and no drain has begun
//	suspending → asleep      the application has stopped, is frozen, or IDLE_HOOK has replied
//	asleep     → resuming    a request or, with IDLE_WAKE_BY_PROBES, a probe needs it
//	resuming   → awake       the application has been started or thawed, or WAKE_HOOK has replied
//
// The gate sends requests to the application only in the state awake.
type sleepState uint8

const (
	stateAwake sleepState = iota
	stateSuspending
	stateAsleep
	stateResuming
)

func (s sleepState) String() string {
	return [...]string{"awake", "suspending", "asleep", "resuming"}[s]
}

var sleepTransitions = [...]sleepState{
	stateAwake: stateSuspending, stateSuspending: stateAsleep, stateAsleep: stateResuming, stateResuming: stateAwake,
}

// sleepMode suspends and resumes an application by stopping, freezing, or a hook.
type sleepMode interface {
	// suspend begins to suspend the application. The channel is closed when it is
	// suspended.
	suspend(p *process) <-chan struct{}
	// suspended is called when the application has been suspended. It returns a text for
	// the log, for example "frozen".
	suspended(p *process) (text string)
	// resume begins to resume the application. The channel receives nil when the
	// application has been resumed, or an error.
	resume(p *process) <-chan error
	// resumed is called when the application has been resumed. It returns the message and
	// the fields of a log line.
	resumed(p *process) (message string, fields []zap.Field)
	// stops reports whether a suspended application has no process.
	stops() bool
}

// sleeper suspends the idle application and resumes it. The zero value does nothing.
type sleeper struct {
	idle interface { // an *app.Idle
		Suspend(idle time.Duration) (remaining time.Duration, ok bool)
		Wanted() <-chan struct{}
		Open() int
		Slept() time.Duration
		Resume()
	}
	idleTimeout time.Duration
	mode        sleepMode

	state     sleepState
	check     <-chan time.Time // when to check whether the application is idle; nil = never
	suspended <-chan struct{}  // result of mode.suspend
	resumed   <-chan error     // result of mode.resume
	slept     time.Duration
	exitCode  int // exit code after a failed resume
}

func (s *sleeper) begin() { s.check = time.After(s.idleTimeout) }

func (s *sleeper) to(next sleepState) {
	if sleepTransitions[s.state] != next {
		panic(fmt.Sprintf("BUG: the application changes from %s to %s", s.state, next))
	}
	s.state = next
}

// wanted receives a value when the sleeping application is needed.
func (s *sleeper) wanted() <-chan struct{} {
	if s.state != stateAsleep {
		return nil
	}
	return s.idle.Wanted()
}

// hasProcess reports whether the application should have a process in this state.
func (s *sleeper) hasProcess() bool { return s.state == stateAwake || !s.mode.stops() }

func (p *process) fallAsleep() {
	s := &p.sleep
	s.check = nil
	select {
	case <-p.application.Exited(): // the application has ended by itself
		return
	case <-p.gate.Draining():
		return
	default:
	}
	remaining, ok := s.idle.Suspend(s.idleTimeout)
	if !ok {
		s.check = time.After(remaining)
		return
	}
	s.to(stateSuspending)
	s.suspended = s.mode.suspend(p)
}

// noteAsleep completes the suspension of the idle application, and logs it.
func (p *process) noteAsleep() {
	s := &p.sleep
	s.suspended = nil
	text := s.mode.suspended(p)
	s.to(stateAsleep)
	p.log.Info("the application is asleep until a request needs it: "+text, zap.Duration("took", s.idle.Slept()))
	if p.isStopping {
		s.idle.Resume() // release waiting requests, which then fail
	}
}

func (p *process) wake() error {
	s := &p.sleep
	if p.isStopping {
		return nil
	}
	s.slept = s.idle.Slept()
	s.to(stateResuming)
	s.resumed = s.mode.resume(p)
	select {
	case err := <-s.resumed:
		return p.noteAwake(err)
	default:
		return nil
	}
}

// noteAwake handles the result of resuming the application.
func (p *process) noteAwake(err error) error {
	s := &p.sleep
	s.resumed = nil
	if err != nil {
		s.exitCode = application.StartCode(err)
		s.idle.Resume() // release the waiting requests, which then fail
		p.isEndNoted = true
		p.log.Error("the application cannot be resumed", zap.Error(err))
		return err
	}
	s.to(stateAwake)
	s.idle.Resume()
	s.begin()
	message, fields := s.mode.resumed(p)
	p.log.Info(message, append(fields, zap.Duration("slept", s.slept), zap.Int("waiting", s.idle.Open()))...)
	return nil
}

// release ends the sleep before the application is stopped. It reports whether the
// application must still get the stop signal.
func (p *process) release() (signals bool) {
	s := &p.sleep
	switch {
	case s.state == stateAwake:
		return true
	case s.mode.stops() && s.state == stateSuspending: // the application has already been signalled
		return false
	case s.exitCode == 0:
		// Resume must be called only once per suspension. If the exit code is not 0, an
		// attempt to resume the application has failed, and noteAwake has called Resume.
		s.idle.Resume()
	}
	s.suspended, s.resumed = nil, nil
	return !s.mode.stops()
}

func (p *process) code() int {
	switch {
	case p.sleep.exitCode != 0:
		return p.sleep.exitCode
	case !p.sleep.hasProcess(): // the idle application has ended at the gate's request
		return exitOK
	}
	return p.application.Code()
}

type stopMode struct {
	restart func() (next runningApplication, pid int, err error)
	pid     int
}

func (m *stopMode) stops() bool { return true }

func (m *stopMode) suspend(p *process) <-chan struct{} {
	p.log.Info("the application is idle: sending SIGTERM", zap.Duration("idle", p.sleep.idleTimeout), zap.Duration("stopTimeout", p.stopTimeout))
	p.application.Stop(syscall.SIGTERM)
	p.limitStop()
	return p.application.GroupExited()
}

func (m *stopMode) suspended(p *process) string {
	p.stopReminder, p.kill = nil, nil
	p.application.KillRest()
	return p.application.ExitText()
}

func (m *stopMode) resume(p *process) <-chan error {
	next, pid, err := m.restart()
	if err == nil {
		p.application, m.pid = next, pid
	}
	return resultOf(err)
}

func (m *stopMode) resumed(*process) (string, []zap.Field) {
	return "the application has started for a request", []zap.Field{zap.Int("pid", m.pid)}
}

// resultOf returns a channel that has received err.
func resultOf(err error) <-chan error {
	result := make(chan error, 1)
	result <- err
	return result
}

// freezeMode freezes the processes of the idle application.
type freezeMode struct {
	freezer interface { // an *application.Freezer
		Freeze() error
		Thaw() error
	}
	err error // error of the last Freeze
}

func (m *freezeMode) stops() bool { return false }

func (m *freezeMode) suspend(*process) <-chan struct{} {
	m.err = m.freezer.Freeze()
	frozen := make(chan struct{})
	close(frozen)
	return frozen
}

// suspended implements sleepMode. An application that cannot be frozen continues to
// run.
func (m *freezeMode) suspended(p *process) string {
	if m.err != nil {
		p.log.Warn("the application cannot be frozen (IDLE_FREEZE)", zap.Error(m.err))
		return "not frozen"
	}
	return "frozen"
}

func (m *freezeMode) resume(*process) <-chan error { return resultOf(m.freezer.Thaw()) }

func (m *freezeMode) resumed(*process) (string, []zap.Field) {
	return "the application is thawed", nil
}
