package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// shutdownTimeout is the maximum time that requests in progress get after the first
// SIGTERM or SIGINT.
const shutdownTimeout = 10 * time.Second

type settings struct {
	address    string
	port       string
	startDelay time.Duration
}

func main() {
	cfg, err := parseSettings(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// stop restores the default action, so that a second signal kills the process.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, cfg, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// parseSettings reads the settings from the flags. If no flag sets the port, it uses the
// environment variable PORT. If a flag asks for help, it writes the usage to the writer
// help, and returns flag.ErrHelp.
func parseSettings(args []string, getenv func(string) string, help io.Writer) (settings, error) {
	var cfg settings
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&cfg.address, "address", "127.0.0.1", "IP address to listen on; 0.0.0.0 or :: for all")
	fs.StringVar(&cfg.port, "port", "", "port to listen on, 0 to 65535, 0 takes a free one (default $PORT, else 8080)")
	fs.DurationVar(&cfg.startDelay, "start-delay", 0, "time before the port opens, to watch a cold start, such as 3s")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(help, "demo: a user container that echoes, waits, streams and fails on request.\n\nFlags:\n")
			fs.SetOutput(help)
			fs.PrintDefaults()
		}
		return settings{}, err
	}
	if fs.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}

	name := "--port"
	if cfg.port == "" {
		name, cfg.port = "PORT", getenv("PORT")
	}
	if cfg.port == "" {
		cfg.port = "8080"
	}
	var problems []error
	if _, err := strconv.ParseUint(cfg.port, 10, 16); err != nil {
		problems = append(problems, fmt.Errorf("%s=%q: want a port from 0 to 65535", name, cfg.port))
	}
	if net.ParseIP(cfg.address) == nil {
		problems = append(problems, fmt.Errorf("--address=%q: want an IP address", cfg.address))
	}
	if cfg.startDelay < 0 {
		problems = append(problems, fmt.Errorf("--start-delay=%v: want 0 or more", cfg.startDelay))
	}
	return cfg, errors.Join(problems...)
}

// run serves until ctx ends. Then it waits up to shutdownTimeout for requests in
// progress.
func run(ctx context.Context, cfg settings, out io.Writer) error {
	if cfg.startDelay > 0 {
		fmt.Fprintf(out, "demo: listening in %v\n", cfg.startDelay)
		if !pause(ctx, cfg.startDelay) {
			return nil
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cfg.address, cfg.port))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %s is taken: choose another with --port or PORT", cfg.port)
		}
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Fprintf(out, "demo: listening on http://%s\n", listener.Addr())

	c := &container{stopping: ctx}
	server := &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(out, "demo: ", 0),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}

	fmt.Fprintln(out, "demo: stopping")
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err = server.Shutdown(grace)
	if err == nil {
		err = c.waitTunnels(grace)
	}
	if err != nil {
		server.Close()
		return fmt.Errorf("requests still open after %v were cut", shutdownTimeout)
	}
	return nil
}

// pause waits for d. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
