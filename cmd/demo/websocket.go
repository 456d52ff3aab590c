package main

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
)

// maxMessage is the maximum size of a message in bytes.
const maxMessage = 64 << 20

// webSocket accepts a WebSocket from any origin and echoes each message in one frame.
// When the container stops, it sends a close frame with status 1001.
func (c *container) webSocket(w http.ResponseWriter, r *http.Request) error {
	// Count the tunnel before the server stops counting its connection.
	c.tunnels.Add(1)
	defer c.tunnels.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // Accept has sent an error response
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	closed := make(chan struct{})
	stop := context.AfterFunc(c.stopping, func() {
		defer close(closed)
		conn.Close(websocket.StatusGoingAway, "")
	})
	for {
		kind, message, err := conn.Read(context.Background())
		if err != nil || conn.Write(context.Background(), kind, message) != nil {
			break
		}
	}
	if !stop() {
		<-closed // CloseNow would truncate the close frame
	}
	return nil
}
