package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// The protocol of the drain socket: the caller sends drainAsked. The gate sends
// drainGoing at once and at each drainInterval, and drainDone when no request is open.
// A caller of another user gets drainRefused. The protocol of `queue upgrade` is in
// handover.go.
const (
	drainAsked   = "drain\n"
	drainGoing   = "draining\n"
	drainDone    = "drained\n"
	drainRefused = "refused: " // followed by the reason
)

const (
	// drainLineTimeout is the timeout for reading or writing a line.
	drainLineTimeout = time.Second

	drainInterval = 2 * time.Second

	// drainSilence is how long a caller waits for the next line: longer than a working
	// gate takes, and shorter than any grace period.
	drainSilence = 10 * time.Second

	// acceptPause is the pause after a failed accept.
	acceptPause = 100 * time.Millisecond
)

// drainSocket is the Unix socket for `queue drain` and `queue upgrade`.
type drainSocket struct {
	log     *zap.Logger
	ln      net.Listener
	upgrade func(conn *net.UnixConn)
	callers sync.WaitGroup // accept and all callers
}

func (a *App) openDrainSocket() (*drainSocket, error) {
	cfg, log := a.cfg, a.log
	path := cfg.DrainSocket
	if path == "" {
		return &drainSocket{}, nil
	}
	if ln, err := a.sockets.InheritedDrain(path); err != nil {
		return nil, fmt.Errorf("opening the drain socket (DRAIN_SOCKET=%q): %w", path, err)
	} else if ln != nil {
		return &drainSocket{log: log, ln: ln, upgrade: a.handover.offer}, nil
	}
	if !strings.HasPrefix(path, "@") {
		if err := prepareSocketPath(path); err != nil {
			return nil, fmt.Errorf("opening the drain socket (DRAIN_SOCKET=%q): %w", path, err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		if !cfg.IsSet("DRAIN_SOCKET") {
			log.Warn("`queue drain` will not work: the drain socket cannot be opened", zap.String("DRAIN_SOCKET", path), zap.Error(err))
			return &drainSocket{}, nil
		}
		return nil, fmt.Errorf("opening the drain socket (DRAIN_SOCKET=%q): %w", path, err)
	}
	a.sockets.AddDrain(ln.(*net.UnixListener))
	return &drainSocket{log: log, ln: ln, upgrade: a.handover.offer}, nil
}

// start begins to accept callers.
func (s *drainSocket) start(d *exchange.Drain) {
	if s.ln != nil {
		s.callers.Go(func() { s.accept(d) })
	}
}

// release stops accepting and leaves the socket to the successor.
func (s *drainSocket) release() {
	if ln, ok := s.ln.(*net.UnixListener); ok {
		ln.SetUnlinkOnClose(false)
		_ = ln.Close()
	}
}

// prepareSocketPath creates the directory, and removes the socket of a killed gate.
func prepareSocketPath(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("the path exists and is not a socket")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return syscall.EADDRINUSE
	}
	return os.Remove(path)
}

func (s *drainSocket) accept(d *exchange.Drain) {
	for {
		conn, err := s.ln.Accept()
		switch {
		case err == nil:
			s.callers.Go(func() { s.serve(conn, d) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// The usual reason for this error is that the gate has no free descriptor.
			// Callers wait in the backlog until the next attempt.
			time.Sleep(acceptPause)
		}
	}
}

func (s *drainSocket) serve(conn net.Conn, d *exchange.Drain) {
	defer conn.Close()
	// Require a line, so that a connection attempt alone does not start a drain.
	_ = conn.SetReadDeadline(time.Now().Add(drainLineTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, 16)).ReadString('\n')
	if c, ok := conn.(*net.UnixConn); ok && err == nil && line == upgradeAsked {
		s.upgrade(c)
		return
	}
	if err != nil || line != drainAsked {
		return
	}
	if pid, reason := checkUser(conn); reason != "" {
		s.log.Warn("a drain is refused: "+reason, zap.Int("pid", pid))
		writeLine(conn, drainRefused+reason+"\n")
		return
	}
	d.Start()
	ticker := time.NewTicker(drainInterval)
	defer ticker.Stop()
	for writeLine(conn, drainGoing) {
		select {
		case <-d.Served():
			writeLine(conn, drainDone)
			return
		case <-d.Ended():
			if d.Requests() == 0 {
				writeLine(conn, drainDone)
			}
			return
		case <-ticker.C:
		}
	}
}

// checkUser returns the PID of the caller. It also checks that the caller runs as the
// gate's user or as root: if so, the result reason is empty; otherwise reason says why
// the caller is refused.
func checkUser(conn net.Conn) (pid int, reason string) {
	c, ok := conn.(syscall.Conn)
	if !ok { // not a socket
		return 0, ""
	}
	var peer *unix.Ucred
	raw, err := c.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		if cerr != nil {
			err = cerr
		}
	}
	switch {
	case err != nil:
		return 0, "its user cannot be determined: " + err.Error()
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return int(peer.Pid), fmt.Sprintf("it runs as user %d: want the user of the gate (%d) or root", peer.Uid, os.Geteuid())
	}
	return int(peer.Pid), ""
}

func writeLine(conn net.Conn, line string) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(drainLineTimeout))
	_, err := io.WriteString(conn, line)
	return err == nil
}

// close waits until all callers have got their last line.
func (s *drainSocket) close() {
	if s.ln != nil {
		_ = s.ln.Close()
		s.callers.Wait()
	}
}

// RequestDrain starts a drain of the gate whose drain socket has this path. It returns
// nil as soon as the gate has no open request. It returns an error if the gate refuses
// the drain, does not respond, or ends before its requests.
func RequestDrain(path string) error {
	conn, err := net.DialTimeout("unix", path, drainSilence)
	if err != nil {
		return fmt.Errorf("reaching the gate through DRAIN_SOCKET=%q: %w", path, err)
	}
	defer conn.Close()
	if err := awaitDrain(conn); err != nil {
		return fmt.Errorf("draining through DRAIN_SOCKET=%q: %w", path, err)
	}
	return nil
}

func awaitDrain(conn net.Conn) error {
	_ = conn.SetWriteDeadline(time.Now().Add(drainSilence))
	if _, err := io.WriteString(conn, drainAsked); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(drainSilence))
		line, err := in.ReadString('\n')
		switch {
		case line == drainDone:
			return nil
		case line == drainGoing:
		case strings.HasPrefix(line, drainRefused):
			return errors.New("the gate has refused this process: " + strings.TrimSpace(strings.TrimPrefix(line, drainRefused)))
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("the gate sent nothing for %v", drainSilence)
		case err != nil:
			return fmt.Errorf("the gate ended before its requests had: %w", err)
		default:
			return fmt.Errorf("unexpected response %q", line)
		}
	}
}
