package hostile

import (
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/atomic"
)

// script is the response that the container plays step by step in a run. It responds to
// the tested request, or is sent before any request (see begin).
type script struct {
	steps  []step
	early  bool          // respond after the head
	synced chan struct{} // closed when the client has its responses
	done   chan struct{} // closed at the end of the script
	began  atomic.Bool
	once   sync.Once
}

// respond sends a response with the token of its request.
func (cc *containerConn) respond(m message) {
	token := tokenPattern.FindString(m.target)
	body := fmt.Sprintf("%s %d\n", token, len(m.body))
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Container: yes\r\nX-Token: %s\r\nContent-Length: %d\r\n", token, len(body))
	closing := m.has("Connection", "close") || m.version == "HTTP/1.0" && !m.has("Connection", "keep-alive")
	if closing {
		head += "Connection: close\r\n"
	}
	if m.method == "HEAD" {
		body = ""
	}
	cc.conn.Write([]byte(head + "\r\n" + body))
	if closing {
		cc.conn.Close()
	}
}

func (c *container) start(cc *containerConn, s *script) {
	s.began.Store(true)
	cc.jobs <- func() { c.play(cc, s) }
}

func (c *container) play(cc *containerConn, s *script) {
	defer s.once.Do(func() { close(s.done) })
	for _, st := range s.steps {
		switch st.kind {
		case stepWrite:
			for rest := st.data; len(rest) > 0; {
				n, err := cc.conn.Write(rest)
				if err != nil {
					break
				}
				rest = rest[n:]
			}
		case stepPause:
			time.Sleep(pauseTime)
		case stepSync:
			select {
			case <-s.synced:
			case <-time.After(hangTime):
			}
		case stepFinish:
			c.mu.Lock()
			cc.closing = true
			c.mu.Unlock()
			cc.conn.(*net.TCPConn).CloseWrite()
		case stepReset:
			c.mu.Lock()
			cc.closing = true
			c.mu.Unlock()
			cc.conn.(*net.TCPConn).SetLinger(0)
			cc.conn.Close()
		}
	}
}
