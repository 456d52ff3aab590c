package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/cmd/queue/internal/app"
	"github.com/queuegate/queuegate/cmd/queue/internal/application"
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
)

// Time limits for the end of the process.
const (
	// leaveTimeout is how long open responses may continue after the application has
	// ended by itself, or cannot be resumed.
	leaveTimeout = 5 * time.Second
	// closeTimeout limits the delivery of queued data to the request log and to
	// collectors.
	closeTimeout = 2 * time.Second
	// logTimeout is the maximum time to write the queued lines of the gate's own log. The
	// gate writes them last, after it has delivered the data of closeTimeout.
	logTimeout = time.Second
	// hurryTimeout replaces closeTimeout after a second signal.
	hurryTimeout = 500 * time.Millisecond
	// hurriedLogTimeout replaces logTimeout after a second signal.
	hurriedLogTimeout = 200 * time.Millisecond
)

// serve runs the gate until it has drained, and returns the exit code. With the parameter
// succeeds (command upgrade), this gate takes over the ports of the running gate.
func serve(cfg *config.Config, succeeds bool, warnings []string, stderr io.Writer) (code int) {
	log, err := app.OpenLog(cfg)
	if err != nil {
		fmt.Fprintln(stderr, "queue:", err)
		return exitConfig
	}
	timeout := logTimeout
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = log.Close(ctx)
	}()
	for _, w := range warnings {
		log.Warn(w)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if cfg.Application != nil {
		signal.Notify(signals, passedOn...)
	}
	p := process{
		gate: newNoGate(), application: (*application.Process)(nil), quiet: cfg.Gate.DrainQuiet, stopTimeout: cfg.StopTimeout, signals: signals, log: log.Logger,
		notify: func(state string) { notify(state, log.Logger) }, succeeds: succeeds,
	}
	defer func() {
		p.application.Kill()
		p.freezer.Close()
	}()
	code, err = p.start(cfg, log)
	if err == nil {
		err = p.end()
	} else if !errors.Is(err, errSecondSignal) {
		return code
	}
	switch {
	case err != nil:
		code = exitFailed
		timeout = hurriedLogTimeout
		log.Warn("the gate ends before the drain is complete, and aborts open requests", append(p.progress(), zap.Error(err))...)
	case cfg.Application != nil:
		code = p.code()
		if !p.isEndNoted && p.sleep.hasProcess() {
			log.Info("the application has ended: "+p.application.ExitText(), zap.Int("exitCode", code), p.waited())
		}
	}
	log.Info("gate stopped", p.waited(), zap.Int("exitCode", code))
	return code
}

// start starts the gate, and then the application. With USER_PORT=auto it starts the
// application first, and waits until the application listens. If the application ends or
// is stopped during this wait, start returns no error and does not start the gate.
//
// start logs the errors that it returns, except errSecondSignal.
func (p *process) start(cfg *config.Config, log *app.Log) (code int, err error) {
	if cfg.Application != nil && cfg.UserPort != config.AutoPort {
		if err := application.CheckFree(cfg.UserPort); err != nil {
			return p.failed("the application cannot start", exitFailed, err)
		}
	}
	if cfg.IdleFreeze && cfg.IdleHook == "" {
		if p.freezer, err = application.NewFreezer("/proc/self/cgroup", "/proc/self/mountinfo"); err != nil {
			return p.failed("the gate cannot start", exitFailed, fmt.Errorf("IDLE_FREEZE=true needs a cgroup that the gate may write to, for a group of the application: %w", err))
		}
	}
	listeners, from, code, err := p.listeners(cfg)
	if err != nil {
		return code, err
	}
	var traffic *net.TCPListener
	isAuto := cfg.UserPort == config.AutoPort
	if isAuto {
		// Listen before the application starts. Connections of clients then wait in the
		// backlog until the gate serves, instead of being refused.
		if traffic, err = app.ListenForTraffic(cfg, listeners); err != nil {
			return p.failed("the gate cannot start", exitFailed, err)
		}
		preferred := application.ChoosePort(config.PreferredUserPort)
		behind, code, err := p.startApplication(cfg, preferred)
		if err != nil {
			return code, err
		}
		if cfg.UserPort, err = p.findPort(behind, preferred); err != nil || cfg.UserPort == 0 {
			return 0, err
		}
	}
	gate, err := app.New(cfg, build(), log, listeners, from)
	if err != nil {
		if code = exitConfig; errors.Is(err, app.ErrSystem) {
			code = exitFailed
		}
		return p.failed("the gate cannot start", code, err)
	}
	gate.OnHandOver(func(pid int) { p.notify(fmt.Sprintf("MAINPID=%d", pid)) })
	gate.BeforeTakeOver(p.interrupted)
	if err := gate.Listen(traffic); err != nil {
		return p.failed("the gate cannot start", exitFailed, err)
	}
	p.gate = gate
	log.Serving(cfg, build().Version)
	if cfg.Application != nil && !isAuto {
		behind, code, err := p.startApplication(cfg, cfg.UserPort)
		if err != nil {
			return code, err
		}
		go behind.Watch(cfg.UserPort, log.Logger)
	}
	if idle := gate.Idle(); idle != nil {
		p.sleep = sleeper{idle: idle, idleTimeout: cfg.IdleStop, mode: p.sleepMode(cfg)}
		p.sleep.begin()
	}
	p.notify(notifyReady)
	reportReady()
	return 0, nil
}

var errInterrupted = errors.New("a signal has ended the upgrade; the running gate continues")

// interrupted returns an error if a signal has asked this process to end. It is called
// just before this gate takes over from the running gate. No other code reads signals at
// that time, so without this call the signal would be noticed only after the takeover.
// Other signals, such as SIGHUP, are discarded.
func (p *process) interrupted() error {
	for {
		select {
		case s := <-p.signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT {
				return errInterrupted
			}
		default:
			return nil
		}
	}
}

func (p *process) sleepMode(cfg *config.Config) sleepMode {
	switch {
	case p.freezer != nil:
		return &freezeMode{freezer: p.freezer}
	case cfg.IdleHook != "":
		m := newHookMode(cfg.IdleHook, cfg.WakeHook, cfg.Gate.UpstreamWait)
		if cfg.Application == nil {
			m.begin(p.log)
		}
		return m
	}
	return &stopMode{restart: func() (runningApplication, int, error) {
		next, err := p.application.(*application.Process).Restart(cfg.UserPort)
		if err != nil {
			return nil, 0, err
		}
		return next, next.PID(), nil
	}}
}

// listeners returns the sockets received from the service manager or the running gate.
func (p *process) listeners(cfg *config.Config) (s *sockets.Set, from *app.Predecessor, code int, err error) {
	s = sockets.New(p.log)
	if !p.succeeds {
		if err = s.Inherit(os.LookupEnv); err == nil {
			err = s.CheckUserPort(cfg.UserPort)
		}
		if err != nil {
			code, err = p.failed("the gate cannot start", exitConfig, err)
			return nil, nil, code, err
		}
		return s, nil, 0, nil
	}
	if from, err = app.Succeed(cfg.DrainSocket, s); err != nil {
		code, err = p.failed("the gate cannot start", exitFailed, err)
	} else if err = s.CheckUserPort(cfg.UserPort); err != nil {
		code, err = p.failed("the gate cannot start", exitConfig, err)
	}
	return s, from, code, err
}

func (p *process) failed(message string, code int, err error) (int, error) {
	p.log.Error(message, zap.Error(err))
	return code, err
}

func (p *process) startApplication(cfg *config.Config, port int) (behind *application.Process, code int, err error) {
	behind, err = application.Start(cfg.Application, port, p.freezer, sockets.Variables...)
	if err != nil {
		code, err = p.failed("the application cannot start", application.StartCode(err), err)
		return nil, code, err
	}
	p.application = behind
	p.log.Info("the application has started", zap.Strings("command", cfg.Application), zap.Int("pid", behind.PID()), zap.Int("PORT", port))
	return behind, 0, nil
}

// findPort waits until the application listens, and returns its port. It returns 0 if
// the application has ended or is being stopped. After a second signal it returns an
// error.
func (p *process) findPort(behind *application.Process, preferred int) (port int, err error) {
	found := make(chan int, 1)
	err = p.wait(func(ctx context.Context) error {
		found <- behind.FindPort(ctx, preferred, p.log)
		return nil
	}, true)
	if err != nil {
		return 0, err
	}
	port = <-found
	if p.shutdownSignal != nil { // a signal has requested the shutdown: do not use the port
		port = 0
	}
	return port, nil
}

// noGate takes the place of the gate until the real gate has been created. It never has
// requests.
type noGate struct {
	once     sync.Once
	draining chan struct{}
}

func newNoGate() *noGate { return &noGate{draining: make(chan struct{})} }

func (g *noGate) Drain()                          { g.once.Do(func() { close(g.draining) }) }
func (g *noGate) Draining() <-chan struct{}       { return g.draining }
func (g *noGate) Served() <-chan struct{}         { return g.draining }
func (g *noGate) Open() (requests, tunnels int64) { return 0, 0 }
func (g *noGate) HandedOver() bool                { return false }
func (g *noGate) Leave()                          { g.Drain() }
func (g *noGate) Reload()                         {}
func (g *noGate) Close(context.Context)           {}

func (g *noGate) Run(ctx context.Context) error {
	select {
	case <-g.draining:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passedOn are signals that the gate forwards to the application. SIGQUIT also starts a
// drain, like SIGTERM.
var passedOn = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT}

// runningApplication is an *application.Process, or a fake in tests. A nil *Process means
// that the gate has not started an application.
type runningApplication interface {
	Code() int
	ExitText() string
	IsInterrupted() bool
	Exited() <-chan struct{}
	GroupExited() <-chan struct{}
	Signal(s os.Signal)
	Stop(s os.Signal)
	Kill()
	KillRest()
}

// process is a running gate with the application that it has started, if any.
type process struct {
	gate interface {
		Drain()
		Draining() <-chan struct{}
		HandedOver() bool
		Served() <-chan struct{}
		Open() (requests, tunnels int64)
		Leave()
		Reload()
		Run(ctx context.Context) error
		Close(ctx context.Context)
	}
	application runningApplication
	sleep       sleeper
	freezer     *application.Freezer // nil: IDLE_FREEZE is off
	quiet       time.Duration        // quiet period of the drain
	stopTimeout time.Duration        // time from Stop to Kill; 0 = no Kill
	signals     <-chan os.Signal
	log         *zap.Logger
	notify      func(state string)
	succeeds    bool // this gate takes over the ports of the running gate

	shutdownSignal os.Signal // the signal that requested the shutdown
	drainBegan     time.Time // zero = not begun
	isStopping     bool      // the application has been asked to stop
	isEndNoted     bool      // the unexpected end or failed resume has been logged
	stopReminder   <-chan time.Time
	kill           <-chan time.Time
}

var errSecondSignal = errors.New("second signal")

// end waits until the gate has drained and the application has ended. Then it closes the
// gate. During the drain, the application gets the stop signal as soon as no request is
// open, even if tunnels are still open. If the application ends by itself, the gate
// drains too.
//
// After a second request to shut down, end does not wait for the drain and the
// application. It closes the gate within hurryTimeout, and returns an error.
func (p *process) end() error {
	timeout := closeTimeout
	cut := p.wait(p.gate.Run, true)
	if cut == nil {
		p.noteDrain()
		p.stopApplication()
		cut = p.wait(p.awaitApplication, false)
	}
	if cut != nil {
		timeout = hurryTimeout
	}
	err := p.wait(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		closed := make(chan struct{})
		go func() {
			p.gate.Close(ctx)
			close(closed)
		}()
		select {
		case <-closed:
		case <-ctx.Done(): // do not wait for Close any longer: the process exits now
		}
		return nil
	}, false)
	return errors.Join(cut, err)
}

// awaitApplication waits until all processes of the application's group have ended.
func (p *process) awaitApplication(ctx context.Context) error {
	groupExited := p.application.GroupExited()
	if groupExited == nil {
		return nil
	}
	select {
	case <-groupExited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) noteEnd() {
	switch {
	case p.isStopping || p.isEndNoted:
		return
	case p.application.IsInterrupted():
		p.log.Info("the application has ended, interrupted at the terminal")
	default:
		p.log.Error("the application has ended by itself: "+p.application.ExitText(), zap.Int("exitCode", p.application.Code()))
	}
	p.isEndNoted = true
}

func (p *process) noteDrain() {
	select {
	case <-p.gate.Draining():
		if p.drainBegan.IsZero() {
			p.drainBegan = time.Now()
			if p.gate.HandedOver() { // a new gate serves now: do not report a stop
				p.log.Info("draining after an upgrade: finishing open requests; a second signal stops at once", p.open()...)
				return
			}
			p.notify(notifyStopping)
			p.log.Info("draining: completing open requests; a second signal ends the gate immediately", append(p.open(), zap.Duration("quietPeriod", p.quiet))...)
		}
	default:
	}
}

// longestSilence is the maximum time after the stop signal until the gate logs that the
// application still runs.
const longestSilence = 5 * time.Second

// stopApplication forwards the signal that requested the shutdown, and starts the stop
// timeout.
func (p *process) stopApplication() {
	if p.isStopping || p.application.GroupExited() == nil {
		return
	}
	p.isStopping = true
	if !p.release() {
		return
	}
	s := p.shutdownSignal
	if s == nil {
		s = syscall.SIGTERM
	}
	if !p.hasGroupExited() {
		p.log.Info("sending "+signalName(s)+" to the application", append(p.progress(), zap.Duration("stopTimeout", p.stopTimeout))...)
	}
	p.application.Stop(s)
	p.limitStop()
}

// signalName returns a name such as SIGTERM.
func signalName(s os.Signal) string {
	if number, ok := s.(syscall.Signal); ok {
		return unix.SignalName(number)
	}
	return s.String()
}

func (p *process) limitStop() {
	silence := longestSilence
	if p.stopTimeout > 0 {
		silence = min(silence, p.stopTimeout/2)
		p.kill = time.After(p.stopTimeout)
	}
	p.stopReminder = time.After(silence)
}

func (p *process) hasGroupExited() bool {
	select {
	case <-p.application.GroupExited():
		return true
	default:
		return false
	}
}

// open returns log fields with the numbers of open requests and tunnels.
func (p *process) open() []zap.Field {
	requests, tunnels := p.gate.Open()
	return []zap.Field{zap.Int64("requests", requests), zap.Int64("tunnels", tunnels)}
}

// progress returns log fields for messages during the drain.
func (p *process) progress() []zap.Field { return append([]zap.Field{p.waited()}, p.open()...) }

// waited returns a log field with the duration of the drain so far. Before the drain it
// returns an empty field.
func (p *process) waited() zap.Field {
	if p.drainBegan.IsZero() {
		return zap.Skip()
	}
	return zap.Duration("waited", time.Since(p.drainBegan).Round(time.Millisecond))
}

// wait runs the function f and returns the result of f. Meanwhile it handles signals, and
// it suspends and resumes the application. After a second request to shut down, wait
// returns an error and does not wait for f.
//
// If the parameter watches is set, the end of the application begins the drain. In that
// case wait cancels f after leaveTimeout, and returns nil.
func (p *process) wait(f func(context.Context) error, watches bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	draining, served := p.gate.Draining(), p.gate.Served()
	var leaveTimer <-chan time.Time
	leave := func() {
		watches = false
		p.gate.Leave()
		leaveTimer = time.After(leaveTimeout)
	}
	for {
		var exited <-chan struct{}
		if watches && p.sleep.hasProcess() {
			exited = p.application.Exited()
		}
		select {
		case err := <-done:
			return err
		case <-draining:
			draining = nil
			p.noteDrain()
		case <-served:
			served = nil
			p.noteDrain()
			p.stopApplication()
		case <-exited:
			p.noteEnd()
			leave()
		case <-p.sleep.check:
			p.fallAsleep()
		case <-p.sleep.suspended:
			p.noteAsleep()
		case <-p.sleep.wanted():
			if p.wake() != nil {
				leave()
			}
		case err := <-p.sleep.resumed:
			if p.noteAwake(err) != nil {
				leave()
			}
		case <-p.stopReminder:
			p.stopReminder = nil
			if !p.hasGroupExited() {
				p.log.Info("the application is still running", p.progress()...)
			}
		case <-p.kill:
			p.kill = nil
			if !p.hasGroupExited() {
				p.log.Warn("the application is still running after the stop timeout (STOP_TIMEOUT): sending SIGKILL", p.progress()...)
				p.application.Kill()
			}
		case <-leaveTimer:
			cancel()
			<-done
			return nil
		case s := <-p.signals:
			if err := p.act(s); err != nil {
				return err
			}
		}
	}
}

// act handles a signal. A second request to shut down is an error.
func (p *process) act(s os.Signal) error {
	switch {
	case s == syscall.SIGHUP:
		p.gate.Reload()
		p.application.Signal(s)
	case s != syscall.SIGTERM && s != syscall.SIGINT && s != syscall.SIGQUIT:
		p.application.Signal(s)
	case p.shutdownSignal != nil:
		p.stopApplication()
		return errSecondSignal
	default:
		p.shutdownSignal = s
		return p.beginDrain()
	}
	return nil
}

// repeatWindow is how long the gate ignores a repeated signal. timeout(1) signals its
// child and then its process group, so the gate gets the signal twice.
const repeatWindow = 10 * time.Millisecond

// beginDrain begins the drain after repeatWindow.
func (p *process) beginDrain() error {
	for windowEnd := time.After(repeatWindow); ; {
		select {
		case sig := <-p.signals:
			if sig == p.shutdownSignal {
				continue
			}
			if err := p.act(sig); err != nil {
				return err
			}
		case <-windowEnd:
			p.gate.Drain()
			return nil
		}
	}
}
