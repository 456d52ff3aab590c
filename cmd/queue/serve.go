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
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
)

// How long the end waits for the request log and for collectors to take what is
// left, and then for the gate's own log. A second signal shortens both: a second
// after it the process is gone.
const (
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
	p := process{gate: gate, signals: signals}
	err = p.end()
	if err != nil {
		code = exitFailed
		timeout = hurriedLogTimeout
		log.Warn("the drain was cut short", zap.Error(err))
	}
	log.Info("ended", zap.Int("exitCode", code))
	return code
}

// process is a running gate and the signals that it gets.
type process struct {
	gate interface {
		Drain()
		Reload()
		Run(ctx context.Context) error
		Close(ctx context.Context)
	}
	signals <-chan os.Signal
	asked   bool // to end, by a signal
}

var errSecondSignal = errors.New("second signal")

// end returns when the gate has drained and closed. A second signal cuts that
// short, and is an error.
func (p *process) end() error {
	timeout := closeTimeout
	cut := p.wait(p.gate.Run)
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
	})
	return errors.Join(cut, err)
}

// wait runs f and acts on signals meanwhile.
func (p *process) wait(f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case s := <-p.signals:
			switch {
			case s == syscall.SIGHUP:
				p.gate.Reload()
			case p.asked:
				return errSecondSignal
			default:
				p.asked = true
				p.gate.Drain()
			}
		}
	}
}
