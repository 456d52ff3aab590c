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

	// releaseTimeout is how long a running gate may take to stop accepting. After that
	// both gates accept connections.
	releaseTimeout = 10 * time.Second

	// firstResultTimeout is how long a successor waits for its first readiness result,
	// so that probes during the upgrade do not fail.
	firstResultTimeout = time.Second
)

// Predecessor is the running gate whose sockets this process has received.
type Predecessor struct {
	path string
	conn *net.UnixConn
}

// Succeed connects to the running gate through its drain socket, which has this path. It
// receives the listening sockets of that gate, and adds them to s. The running gate
// continues to accept connections until App.Listen makes it stop.
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

// BeforeTakeOver sets a function that is called when this gate is ready to take over from
// the running one. If it returns an error, Listen returns that error, and the running
// gate continues. Call it before Listen.
func (a *App) BeforeTakeOver(f func() error) { a.beforeTakeOver = f }

// takeOver makes the running gate stop accepting.
func (a *App) takeOver() error {
	if a.predecessor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstResultTimeout)
	a.readiness.probes.Wait(ctx, gate.Kubelet)
	cancel()
	if a.beforeTakeOver != nil {
		if err := a.beforeTakeOver(); err != nil {
			_ = a.predecessor.conn.Close() // the running gate continues
			return err
		}
	}
	return a.predecessor.release(a.log)
}

// release tells the running gate to stop accepting, and waits until it has stopped. If
// the running gate has begun to drain or no longer waits, release returns an error. If
// the running gate has ended or hangs, release returns nil, so that the new gate serves
// the ports.
func (p *Predecessor) release(log *zap.Logger) error {
	defer p.conn.Close()
	_ = p.conn.SetDeadline(time.Now().Add(releaseTimeout))
	// Ignore a write error, which means that the running gate has closed the connection.
	// The running gate may have sent the line upgradeDraining before it closed the
	// connection, and the read below still returns this line.
	_, _ = io.WriteString(p.conn, upgradeReady)
	switch line, err := bufio.NewReader(p.conn).ReadString('\n'); {
	case line == upgradeReleased:
	case line == upgradeDraining:
		return fmt.Errorf("upgrading through DRAIN_SOCKET=%q: the running gate is draining", p.path)
	case line == upgradeLate:
		return fmt.Errorf("upgrading through DRAIN_SOCKET=%q: the running gate no longer waits, because the start took more than %s", p.path, successorTimeout)
	case errors.Is(err, os.ErrDeadlineExceeded):
		log.Warn("the running gate does not stop accepting: both gates accept", zap.Duration("waited", releaseTimeout))
	default:
		log.Warn("the running gate has ended during the upgrade", zap.Error(err))
	}
	return nil
}
