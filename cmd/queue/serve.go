package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/app"
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
)

// serve runs the gate until it has drained, and returns the exit code.
func serve(cfg *config.Config, warnings []string) int {
	log, err := app.NewLogger(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		return exitConfig
	}
	defer func() { _ = log.Sync() }()
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
	code := await(gate, signals, log)
	gate.Close()
	log.Info("ended", zap.Int("exitCode", code))
	return code
}

// await returns the exit code once the gate has drained, or on a second signal
// that asks for the end.
func await(gate *app.App, signals <-chan os.Signal, log *zap.Logger) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- gate.Run(ctx) }()
	for asked := false; ; {
		select {
		case err := <-ended:
			if err != nil {
				log.Warn("the drain was cut short", zap.Error(err))
				return exitFailed
			}
			return exitOK
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				gate.Reload()
			case asked:
				log.Warn("second signal: not waiting any longer")
				return exitFailed
			default:
				asked = true
				gate.Drain()
			}
		}
	}
}
