package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/app"
	"github.com/queuegate/queuegate/cmd/queue/internal/application"
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
)

// How long the end waits for the request log and for collectors to take what is
// left, and then for the gate's own log. A second signal shortens both: a second
// after it the process is gone. Of requests that outlive the application, what it
// has sent may take leaveTimeout to be delivered.
const (
	leaveTimeout      = 5 * time.Second
	closeTimeout      = 2 * time.Second
	logTimeout        = time.Second
	hurryTimeout      = 500 * time.Millisecond
	hurriedLogTimeout = 200 * time.Millisecond
)

// serve runs the gate until it has drained, and returns the exit code.
func serve(cfg *config.Config, warnings []string, stderr io.Writer) (code int) {
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

	gate, err := app.New(cfg, build(), log)
	if err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		if errors.Is(err, app.ErrSystem) {
			return exitFailed
		}
		return exitConfig
	}
	if err := gate.Listen(); err != nil {
		log.Error("the gate cannot start", zap.Error(err))
		return exitFailed
	}
	log.Info("serving", zap.Int("port", cfg.ServingPort), zap.Int("userPort", cfg.UserPort))
	p := process{gate: gate, signals: signals, notify: func(state string) { notify(state, log.Logger) }}
	if cfg.Application != nil {
		if p.application, err = application.Start(cfg.Application, cfg.UserPort, notifySocket); err != nil {
			log.Error("the application cannot start", zap.Error(err))
			return application.StartCode(err)
		}
		log.Info("the application has started", zap.Strings("command", cfg.Application), zap.Int("pid", p.application.PID()))
	}
	p.notify(notifyReady)
	err = p.end()
	switch {
	case err != nil:
		code = exitFailed
		timeout = hurriedLogTimeout
		log.Warn("the drain was cut short", zap.Error(err))
	case p.application != nil:
		code = p.application.Code()
		log.Info("the application has ended", zap.Int("exitCode", code))
	}
	log.Info("ended", zap.Int("exitCode", code))
	return code
}

// passedOn are what the gate has no use for itself. An application gets them as
// they come, but for SIGQUIT: that asks for the end (nginx), as SIGTERM does.
var passedOn = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT}

// process is a running gate, the application that it has started if there is
// one, and the signals that it gets.
type process struct {
	gate interface {
		Drain()
		Draining() <-chan struct{}
		Served() <-chan struct{}
		Leave()
		Reload()
		Run(ctx context.Context) error
		Close(ctx context.Context)
	}
	application *application.Process
	signals     <-chan os.Signal
	notify      func(state string)
	asked       os.Signal // to end
	stopping    bool      // and systemd is notified
}

var errSecondSignal = errors.New("second signal")

// end returns when the gate has drained and closed, and the application has
// ended: it gets its signal once no request is under way, while its tunnels are
// still open. An application that ends by itself ends the gate. A second signal
// cuts all that short, and is an error.
func (p *process) end() error {
	timeout := closeTimeout
	cut := p.wait(p.gate.Run, p.application.Ended())
	if cut == nil {
		cut = p.wait(p.applicationEnd, nil)
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
		case <-ctx.Done(): // what hangs ends with the process
		}
		return nil
	}, nil)
	p.application.Kill()
	return errors.Join(cut, err)
}

// applicationEnd asks the application to end and waits until no process of its
// group is left.
func (p *process) applicationEnd(ctx context.Context) error {
	if p.application == nil {
		return nil
	}
	p.stopApplication()
	select {
	case <-p.application.Gone():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopApplication passes on the signal that has asked the gate to end.
func (p *process) stopApplication() {
	s := p.asked
	if s == nil {
		s = syscall.SIGTERM
	}
	p.application.Stop(s)
}

// wait runs f and acts on signals, and on the end of the application, meanwhile.
func (p *process) wait(f func(context.Context) error, gone <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	draining, served := p.gate.Draining(), p.gate.Served()
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case <-draining:
			draining = nil
			if !p.stopping {
				p.stopping = true
				p.notify(notifyStopping)
			}
		case <-served:
			served = nil
			p.stopApplication()
		case <-gone:
			gone = nil
			p.gate.Leave()
			late = time.After(leaveTimeout)
		case <-late:
			cancel()
			<-ended
			return nil
		case s := <-p.signals:
			if err := p.act(s); err != nil {
				return err
			}
		}
	}
}

// act acts on a signal. The second that asks for the end is an error.
func (p *process) act(s os.Signal) error {
	switch {
	case s == syscall.SIGHUP:
		p.gate.Reload()
		p.application.Signal(s)
	case s != syscall.SIGTERM && s != syscall.SIGINT && s != syscall.SIGQUIT:
		p.application.Signal(s)
	case p.asked != nil:
		p.stopApplication()
		return errSecondSignal
	default:
		p.asked = s
		p.gate.Drain()
	}
	return nil
}
