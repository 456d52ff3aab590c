package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// The kernel kills a child (Pdeathsig) when the thread that started the child ends. The
// main thread ends only with the process, so main stays on this thread and starts the
// children.
func init() { runtime.LockOSThread() }

const (
	startTimeout  = 15 * time.Second
	preferredPort = "8080" // port of the demo container if no flag sets one
)

type settings struct {
	gate, demo     string // paths of the binaries
	port, userPort string // userPort "" = preferredPort or a free port
}

func main() {
	var cfg settings
	flag.StringVar(&cfg.gate, "gate", "bin/queue", "gate binary")
	flag.StringVar(&cfg.demo, "demo", "bin/demo", "demo container binary")
	flag.StringVar(&cfg.port, "port", "8012", "port of the gate (make run PORT=...)")
	flag.StringVar(&cfg.userPort, "user-port", "", "port of the demo container (make run USER_PORT=...; default 8080, or a free one)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal kills this process.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, cfg, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// run starts both processes, and stops them when ctx ends. It returns an error if a
// port is in use, or if a process exits or does not respond.
func run(ctx context.Context, cfg settings, out, logs io.Writer) error {
	if err := free("PORT", "", cfg.port); err != nil {
		return err
	}
	if err := pickUserPort(&cfg); err != nil {
		return err
	}

	demo, err := startProcess(logs, nil, cfg.demo, "--port", cfg.userPort)
	if err != nil {
		return err
	}
	defer demo.stop()
	gate, err := startProcess(logs, gateEnvironment(cfg), cfg.gate, "--user-port", cfg.userPort)
	if err != nil {
		return err
	}
	defer gate.stop()

	base := "http://127.0.0.1:" + cfg.port
	responded := make(chan error, 1)
	asking, enough := context.WithTimeout(ctx, startTimeout)
	defer enough()
	go func() { responded <- waitForResponse(asking, base+"/healthz") }()
	for {
		select {
		case err := <-responded:
			switch {
			case ctx.Err() != nil:
			case err != nil:
				return fmt.Errorf("the gate did not respond within %v: %w", startTimeout, err)
			default:
				fmt.Fprintf(out, suggestions, base)
			}
		case err := <-demo.exitResult:
			return fmt.Errorf("the demo container ended: %w", err)
		case err := <-gate.exitResult:
			return fmt.Errorf("the gate ended: %w", err)
		case <-ctx.Done():
			fmt.Fprintln(out, "\nstopping")
			return nil
		}
	}
}

const suggestions = `
The gate is up, the demo container behind it. Try, in another terminal:

  curl -i '%[1]s/echo'
  curl -N '%[1]s/stream?n=10&ms=300'
  curl -i -H 'K-Network-Probe: queue' '%[1]s/'

%[1]s/ lists what else the container can do. Ctrl-C stops both.
`

// gateEnvironment returns the environment of the gate. It sets the gate's port, and
// disables the quiet period of the drain unless DRAIN_QUIET_SECONDS is set.
func gateEnvironment(cfg settings) []string {
	env := append(os.Environ(), "QUEUE_SERVING_PORT="+cfg.port)
	if os.Getenv("DRAIN_QUIET_SECONDS") == "" {
		env = append(env, "DRAIN_QUIET_SECONDS=0")
	}
	return env
}

// pickUserPort checks the configured port. By default it selects preferredPort or
// another free port.
func pickUserPort(cfg *settings) error {
	if cfg.userPort != "" {
		return free("USER_PORT", "127.0.0.1", cfg.userPort)
	}
	if cfg.port != preferredPort && free("", "127.0.0.1", preferredPort) == nil {
		cfg.userPort = preferredPort
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("looking for a free port: %w", err)
	}
	defer listener.Close()
	cfg.userPort = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	return nil
}

// free checks that a port is valid and not in use. If it is not, the error contains the
// parameter setting, which is the name of make's variable for the port.
func free(setting, address, port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%s=%q: want a port from 1 to 65535", setting, port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s=%s: the port is in use: stop the process that listens there, or choose another: make run %s=<port>", setting, port, setting)
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", setting, port, err)
	}
	return listener.Close()
}

// waitForResponse waits until url responds with 200. If ctx ends first, it returns the
// error of the last attempt.
func waitForResponse(ctx context.Context, url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	last := errors.New("no attempt was made")
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(request)
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("GET %s: %s", url, res.Status)
		}
		if ctx.Err() != nil {
			return last
		}
		last = err
		select {
		case <-ctx.Done():
			return last
		case <-time.After(50 * time.Millisecond):
		}
	}
}
