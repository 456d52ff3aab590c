// This setting keeps the Go runtime from checking every second whether the CPU limit of
// the process has changed. The check would wake even an idle process. Instead, the gate
// reads the CPU limit when the container begins to listen.
//go:debug updatemaxprocs=0

// Command queue is the request gate in front of a serverless container: it
// admits, counts and forwards requests, answers the platform's probes and
// drains on SIGTERM. See docs/configuration.md for its settings.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/cmd/queue/internal/app"
	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/metrics/lines"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // could not listen, or the shutdown failed
	exitConfig = 2 // invalid configuration
	// With `queue -- COMMAND`, the gate exits with the exit code of the application if
	// the shutdown has succeeded.
)

// stderrTimeout is the maximum time before the exit to write start-up errors to stderr.
const stderrTimeout = time.Second

func main() {
	// Do not exit if the reader of stdout or stderr exits.
	signal.Ignore(syscall.SIGPIPE)
	openReadyPipe()
	stderr := lines.New(lines.Config{Writer: os.Stderr})
	code := run(os.Args[1:], os.Stdout, stderr)
	ctx, cancel := context.WithTimeout(context.Background(), stderrTimeout)
	_ = stderr.Close(ctx)
	cancel()
	os.Exit(code)
}

func run(args []string, stdout, stderr io.Writer) int {
	cfg, command, warnings, err := config.Load(args, os.LookupEnv, variables())
	if err != nil || command == config.CommandCheck {
		for _, w := range warnings {
			fmt.Fprintln(stderr, "warning:", w)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitConfig
	}
	switch command {
	case config.CommandHelp:
		err = config.WriteHelp(stdout, cfg)
	case config.CommandHelpJSON:
		err = config.WriteHelpJSON(stdout, cfg)
	case config.CommandVersion:
		err = writeVersion(stdout)
	case config.CommandCheck:
		live, problems := app.CheckLive(cfg)
		if err = config.WriteCheck(stdout, live); err == nil && problems != nil {
			fmt.Fprintln(stderr, problems)
			return exitConfig
		}
	case config.CommandDrain:
		err = app.RequestDrain(cfg.DrainSocket)
	case config.CommandProbe:
		err = probeGate(cfg)
	case config.CommandUpgrade:
		if cfg.Background {
			return startInBackground(args, stderr)
		}
		return serve(cfg, true, warnings, stderr)
	default:
		return serve(cfg, false, warnings, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "queue:", err)
		return exitFailed
	}
	return exitOK
}

func variables() []string {
	names := os.Environ()
	for i, pair := range names {
		names[i], _, _ = strings.Cut(pair, "=")
	}
	return names
}
