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

	"github.com/queuegate/queuegate/cmd/queue/internal/config"
	"github.com/queuegate/queuegate/pkg/gate"
)

// The drain socket's protocol: a line that asks for the drain, a line when it
// has begun, and one when it has ended.
const (
	drainAsked = "drain\n"
	drainBegun = "draining\n"
	drainDone  = "drained\n"
)

// drainPatience bounds how long a caller may take to say what it wants, and
// to take the answer.
const drainPatience = time.Second

// drainSocket is the Unix socket through which `queue drain` reaches the gate.
type drainSocket struct {
	ln      net.Listener
	callers sync.WaitGroup // accept and all answers
}

func openDrainSocket(cfg *config.Config, d *gate.Drain, log *zap.Logger) (*drainSocket, error) {
	path := cfg.DrainSocket
	if path == "" {
		return &drainSocket{}, nil
	}
	if !strings.HasPrefix(path, "@") {
		if err := prepareSocketPath(path); err != nil {
			return nil, fmt.Errorf("opening the drain socket (DRAIN_SOCKET=%q): %w", path, err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		if !cfg.Given("DRAIN_SOCKET") {
			log.Warn("`queue drain` will not work: the drain socket cannot be opened", zap.String("DRAIN_SOCKET", path), zap.Error(err))
			return &drainSocket{}, nil
		}
		return nil, fmt.Errorf("opening the drain socket (DRAIN_SOCKET=%q): %w", path, err)
	}
	s := &drainSocket{ln: ln}
	s.callers.Go(func() { s.accept(d) })
	return s, nil
}

// prepareSocketPath makes the directory and removes what a gate that was
// killed has left behind.
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
		return errors.New("something that is not a socket is in its place")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return syscall.EADDRINUSE
	}
	return os.Remove(path)
}

func (s *drainSocket) accept(d *gate.Drain) {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.callers.Go(func() { s.answer(conn, d) })
	}
}

func (s *drainSocket) answer(conn net.Conn, d *gate.Drain) {
	defer conn.Close()
	// A word is asked for, so that a mere connection attempt drains nothing.
	_ = conn.SetReadDeadline(time.Now().Add(drainPatience))
	word, err := bufio.NewReader(io.LimitReader(conn, 16)).ReadString('\n')
	if err != nil || word != drainAsked {
		return
	}
	d.Start()
	_, _ = io.WriteString(conn, drainBegun)
	<-d.Ended()
	_ = conn.SetWriteDeadline(time.Now().Add(drainPatience))
	_, _ = io.WriteString(conn, drainDone)
}

// close lets those who wait hear of the drain's end.
func (s *drainSocket) close() {
	if s.ln != nil {
		_ = s.ln.Close()
		s.callers.Wait()
	}
}

// RequestDrain is `queue drain`: it returns when the gate has drained.
func RequestDrain(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("reaching the gate through DRAIN_SOCKET=%q: %w", path, err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, drainAsked); err != nil {
		return fmt.Errorf("asking for a drain: %w", err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != drainBegun {
		return fmt.Errorf("asking for a drain: unexpected answer %q: %w", line, err)
	}
	// The gate's exit right after the drain's end may cut the last line off.
	if line, err := r.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("waiting for the drain: unexpected answer %q: %w", line, err)
	}
	return nil
}
