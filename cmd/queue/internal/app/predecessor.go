package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
	"github.com/queuegate/queuegate/pkg/gate"
)

const (
	// offerTimeout is how long a running gate may take to pass its sockets.
	offerTimeout = 10 * time.Second

	// releaseTimeout is how long a running gate may take to stop accepting. It is
	// longer than a busy event loop needs. After this time both gates accept
	// connections.
	releaseTimeout = 10 * time.Second

	// firstResultTimeout is how long a successor waits for the first result of its
	// readiness probe, so that probes during the upgrade are answered as before.
	firstResultTimeout = time.Second
)

// Predecessor is the running gate whose sockets this process has received.
type Predecessor struct {
	path string
	conn *net.UnixConn
}

// Succeed asks the running gate at the drain socket for its sockets and adds them to s.
// Until the new gate listens, the running one continues unchanged; it continues also if
// this process ends.
func Succeed(path string, s *sockets.Set) (*Predecessor, error) {
	if path == "" {
		return nil, errors.New("DRAIN_SOCKET=\"\": want the socket of the running gate")
	}
	conn, err := net.DialTimeout("unix", path, offerTimeout)
	if err != nil {
		return nil, fmt.Errorf("reaching the running gate through DRAIN_SOCKET=%q: %w", path, err)
	}
	p := &Predecessor{path, conn.(*net.UnixConn)}
	_ = conn.SetDeadline(time.Now().Add(offerTimeout))
	if _, err = io.WriteString(conn, upgradeAsked); err == nil {
		err = s.Receive(p.conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("upgrading through DRAIN_SOCKET=%q: %w", path, err)
	}
	return p, nil
}

// takeOver tells the running gate that this one is ready, and waits until it has stopped
// accepting.
func (a *App) takeOver() error {
	if a.predecessor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstResultTimeout)
	a.readiness.probes.Wait(ctx, gate.Kubelet)
	cancel()
	return a.predecessor.release(a.log)
}

// release waits until the running gate has stopped accepting. It returns an error if
// that gate has begun to drain. It returns nil if that gate has ended or hangs, because
// its ports must still be served.
func (p *Predecessor) release(log *zap.Logger) error {
	defer p.conn.Close()
	_ = p.conn.SetDeadline(time.Now().Add(releaseTimeout))
	_, _ = io.WriteString(p.conn, upgradeReady) // even if this fails, a last line of the running gate may be readable
	switch word, err := bufio.NewReader(p.conn).ReadString('\n'); {
	case word == upgradeReleased:
	case word == upgradeDraining:
		return fmt.Errorf("upgrading through DRAIN_SOCKET=%q: the running gate is draining", p.path)
	case errors.Is(err, os.ErrDeadlineExceeded):
		log.Warn("the running gate does not stop accepting: both gates accept", zap.Duration("waited", releaseTimeout))
	default:
		log.Warn("the running gate has ended during the upgrade", zap.Error(err))
	}
	return nil
}
