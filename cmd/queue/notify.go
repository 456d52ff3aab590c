package main

import (
	"net"
	"os"
	"time"

	"go.uber.org/zap"
)

// notifySocket is the variable with the address of systemd's socket (sd_notify(3)).
const notifySocket = "NOTIFY_SOCKET"

// Notifications to systemd.
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
)

// notify sends state to systemd, if NOTIFY_SOCKET is set.
func notify(state string, log *zap.Logger) {
	path := os.Getenv(notifySocket)
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		log.Warn("systemd cannot be notified", zap.String(notifySocket, path), zap.String("state", state), zap.Error(err))
	}
}
