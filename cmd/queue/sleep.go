package main

import (
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/application"
)

// sleepState is the state of an application that is stopped when it is idle:
//
//	awake  → ending  no request has been open for IDLE_STOP, and no drain has begun
//	ending → asleep  no process of the application is left
//	asleep → awake   a request needs it
//
// In ending and asleep the gate sends nothing to the application (exchange.Standby).
type sleepState uint8

const (
	stateAwake sleepState = iota
	stateEnding
	stateAsleep
)

func (s sleepState) String() string { return [...]string{"awake", "ending", "asleep"}[s] }

var sleepTransitions = [...]sleepState{stateAwake: stateEnding, stateEnding: stateAsleep, stateAsleep: stateAwake}

// sleeper stops the idle application and starts it again. The zero value never does.
type sleeper struct {
	idle interface { // an *app.Idle
		Suspend(idle time.Duration) (left time.Duration, ok bool)
		Wanted() <-chan struct{}
		Open() int
		Slept() time.Duration
		Resume()
	}
	after   time.Duration
	restart func() (next runningApplication, pid int, err error)

	state    sleepState
	check    <-chan time.Time // when to check whether the application is idle; nil = never
	exitCode int              // exit code of the application that could not be started again
}

// begin begins to check whether the application is idle.
func (s *sleeper) begin() { s.check = time.After(s.after) }

func (s *sleeper) to(next sleepState) {
	if sleepTransitions[s.state] != next {
		panic(fmt.Sprintf("BUG: the application changes from %s to %s", s.state, next))
	}
	s.state = next
}

// wanted receives a value when a request needs the application that is asleep.
func (s *sleeper) wanted() <-chan struct{} {
	if s.state != stateAsleep || s.exitCode != 0 {
		return nil
	}
	return s.idle.Wanted()
}

// fallAsleep asks the application to end if it is idle.
func (p *process) fallAsleep() {
	s := &p.sleep
	s.check = nil
	select {
	case <-p.application.Ended(): // by itself
		return
	case <-p.gate.Draining():
		return
	default:
	}
	left, ok := s.idle.Suspend(s.after)
	if !ok {
		s.check = time.After(left)
		return
	}
	s.to(stateEnding)
	p.log.Info("the application is idle: sending SIGTERM", zap.Duration("idle", s.after), zap.Duration("stopTimeout", p.stopTimeout))
	p.application.Stop(syscall.SIGTERM)
	p.limitStop()
}

// asleepSoon returns a channel that is closed when no process of the application is left, if
// it was asked to end because it is idle.
func (p *process) asleepSoon() <-chan struct{} {
	if p.sleep.state != stateEnding {
		return nil
	}
	return p.application.Gone()
}

// noteAsleep notes that the idle application has ended. It is started at once if requests
// have begun meanwhile.
func (p *process) noteAsleep() error {
	s := &p.sleep
	p.still, p.kill = nil, nil
	p.application.KillRest()
	s.to(stateAsleep)
	p.log.Info("the application is asleep until a request needs it: "+p.application.How(), zap.Duration("took", s.idle.Slept()))
	switch {
	case p.isStopping:
		s.idle.Resume()
	case s.idle.Open() > 0:
		return p.wake()
	}
	return nil
}

// wake starts the application that is asleep.
func (p *process) wake() error {
	s := &p.sleep
	if p.isStopping {
		return nil
	}
	slept := s.idle.Slept()
	next, pid, err := s.restart()
	if err != nil {
		s.exitCode = application.StartCode(err)
		s.idle.Resume() // the waiting requests end
		p.isEndNoted = true
		p.log.Error("the application cannot start again", zap.Error(err))
		return err
	}
	p.application = next
	s.to(stateAwake)
	s.idle.Resume()
	s.begin()
	p.log.Info("the application has started for a request", zap.Duration("slept", slept), zap.Int("pid", pid), zap.Int("waiting", s.idle.Open()))
	return nil
}

// code returns the exit code of the gate with an application.
func (p *process) code() int {
	switch {
	case p.sleep.exitCode != 0:
		return p.sleep.exitCode
	case p.sleep.state != stateAwake: // it ended because the gate asked it to
		return exitOK
	}
	return p.application.Code()
}
