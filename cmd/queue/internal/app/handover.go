package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/cmd/queue/internal/sockets"
)

// The protocol of `queue upgrade` on the drain socket. The successor sends
// upgradeAsked, and gets an offer with all listening sockets. When it is ready to
// accept, it sends upgradeReady. The gate stops accepting and sends upgradeReleased.
// Only then does the successor accept, so that no connection wakes a process that does
// not accept it. If a drain has begun, the gate sends upgradeDraining instead of
// upgradeReleased. If the successor is not ready within successorTimeout, the gate sends
// upgradeLate and continues.
const (
	upgradeAsked    = "upgrade\n"
	upgradeReady    = "ready\n"
	upgradeReleased = "released\n"
	upgradeDraining = "draining\n"
	upgradeLate     = "late\n"
)

const (
	// successorTimeout is the maximum time from the offer until the successor is ready.
	// Without it, a successor that hangs would block all later upgrades.
	successorTimeout = time.Minute

	// handoverIdle is how long the old gate keeps idle HTTP/1 connections open, unless
	// the quiet period of a drain is longer. Closing a connection at once could lose a
	// request that the client has already sent.
	handoverIdle = 5 * time.Second

	// handoverInterval is how often the old gate checks whether clients are connected.
	handoverInterval = 50 * time.Millisecond
)

// handover passes the sockets of a running gate to a successor.
type handover struct {
	app       *App
	isOffered atomic.Bool   // a successor is starting
	released  chan struct{} // closed when the gate has stopped accepting
	// notify is called with the successor's PID before the gate stops accepting. It may
	// be nil.
	notify  func(pid int)
	timeout time.Duration // successorTimeout, or less in tests
}

func (h *handover) init(a *App) {
	h.app, h.released, h.timeout = a, make(chan struct{}), successorTimeout
}

// OnHandOver sets a function that is called with the successor's PID before the gate
// stops accepting. Call it before Listen.
func (a *App) OnHandOver(f func(pid int)) { a.handover.notify = f }

// HandedOver reports whether a successor serves the gate's ports.
func (a *App) HandedOver() bool { return a.gate.Drain.HandedOver() }

// offer serves a successor on the drain socket.
func (h *handover) offer(conn *net.UnixConn) {
	a, d := h.app, h.app.gate.Drain
	peer, reason := h.check(conn)
	if reason == "" && !h.isOffered.CompareAndSwap(false, true) {
		reason = "another upgrade is in progress"
	}
	if reason != "" {
		a.log.Warn("an upgrade is refused: "+reason, zap.Int("pid", peer))
		_ = conn.SetWriteDeadline(time.Now().Add(drainLineTimeout))
		_ = sockets.Refuse(conn, reason)
		return
	}
	defer h.isOffered.Store(false)
	_ = conn.SetWriteDeadline(time.Now().Add(drainLineTimeout))
	if err := a.sockets.Send(conn); err != nil {
		a.log.Warn("the sockets cannot be passed to the successor", zap.Int("pid", peer), zap.Error(err))
		return
	}
	// Log this only after the sockets are sent: from then on the successor no longer needs
	// this process.
	a.log.Info("a successor is starting", zap.Int("pid", peer))
	err := h.awaitReady(conn)
	if err == nil && !isClosed(conn) && h.release(peer) {
		writeLine(conn, upgradeReleased)
		return
	}
	h.isOffered.Store(false) // before the line in the log that invites another upgrade
	switch {
	case d.Active():
		writeLine(conn, upgradeDraining)
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeLine(conn, upgradeLate)
		a.log.Warn("the successor was not ready in time; this gate continues", zap.Int("pid", peer), zap.Duration("timeout", h.timeout))
	default:
		a.log.Warn("the successor has ended before it was ready; this gate continues", zap.Int("pid", peer))
	}
}

// check returns the PID of the peer. It also decides whether the peer may get the
// sockets: if so, the result reason is empty; otherwise reason says why not.
func (h *handover) check(conn *net.UnixConn) (pid int, reason string) {
	pid, reason = checkUser(conn)
	switch {
	case reason != "":
		return pid, reason
	case h.app.cfg.Application != nil:
		return pid, "the gate has started its application (queue -- COMMAND), which would end with it; restart the gate instead"
	case os.Getpid() == 1:
		return pid, "the gate is process 1, and its container would end with it; replace the container instead"
	case h.app.gate.Drain.Active():
		return pid, "the gate is draining"
	}
	return pid, ""
}

// awaitReady waits until the successor is ready. It returns an error if the successor
// ends, a drain begins or the timeout expires.
func (h *handover) awaitReady(conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(h.timeout))
	d := h.app.gate.Drain
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-d.Started():
		case <-d.Ended():
		case <-done:
			return
		}
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // ends ReadString
	}()
	line, err := bufio.NewReader(io.LimitReader(conn, int64(len(upgradeReady)))).ReadString('\n')
	if err == nil && line != upgradeReady {
		err = fmt.Errorf("got %q, want %q", line, upgradeReady)
	}
	return err
}

// isClosed reports whether the peer has closed conn, or conn has failed. The gate checks
// this after it has received upgradeReady, because the peer may have ended just after
// sending that line. If the peer has closed conn, the gate continues to accept.
func isClosed(conn *net.UnixConn) (closed bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return closed || err != nil
}

// release stops accepting on all ports, because the successor will accept. It returns
// false if a drain has begun.
func (h *handover) release(pid int) bool {
	a := h.app
	if !a.gate.Drain.HandOver() {
		return false
	}
	if h.notify != nil {
		h.notify(pid)
	}
	a.log.Info("the successor is ready; no further connections are accepted", zap.Int("pid", pid))
	a.drainSocket.release()
	a.sockets.Close()
	a.tls.close()
	a.server.StopListening()
	for _, p := range a.ports {
		p.release()
	}
	close(h.released)
	return true
}

// release closes the listener at once. Requests in progress continue, and each connection
// is closed after its response.
func (p *sidePort) release() {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	go func() { // Shutdown closes the listener at once, and then waits for requests
		defer cancel()
		_ = p.server.Shutdown(ctx)
	}()
}

// finish ends the old gate after a handover. It first waits until the method release has
// stopped accepting. Then it waits until no client is connected. This takes at most
// handoverIdle, or the quiet period of a drain if that is longer. Finally finish shuts
// the server down, and Run returns.
func (h *handover) finish(ctx context.Context) error {
	a := h.app
	select {
	case <-h.released:
	case <-ctx.Done():
		return ctx.Err()
	}
	end := time.NewTimer(max(handoverIdle, a.cfg.Gate.DrainQuiet))
	defer end.Stop()
	check := time.NewTicker(handoverInterval)
	defer check.Stop()
	for a.server.Clients() > 0 {
		select {
		case <-check.C:
			continue
		case <-end.C:
		case <-a.leaveRequested:
		case <-ctx.Done():
			return ctx.Err()
		}
		break
	}
	return a.server.Shutdown(ctx)
}
