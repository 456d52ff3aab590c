package http1

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// reasonPhrases are those of the statuses that the gate answers with.
var reasonPhrases = map[int]string{
	200: "OK", 400: "Bad Request", 405: "Method Not Allowed", 408: "Request Timeout", 414: "URI Too Long",
	403: "Forbidden", 417: "Expectation Failed", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
	501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
	505: "HTTP Version Not Supported",
}

func (w *worker) appendReply(dst []byte, a *gate.Reply, keep bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(a.Status), 10)
	dst = append(append(dst, ' '), reasonPhrases[a.Status]...)
	for name, value := range a.Fields {
		dst = append(append(dst, "\r\n"...), name...)
		dst = append(append(dst, ": "...), value...)
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(a.Length()), 10)
	dst = append(dst, "\r\n"...)
	dst = w.eng.appendDate(dst)
	if !keep {
		dst = append(dst, "Connection: close\r\n"...)
	} else if w.req.Minor == 0 {
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if string(w.req.Method) == "HEAD" {
		return dst
	}
	return a.AppendBody(dst)
}

// answer sends a and reports whether the connection goes on. It closes the
// connection otherwise.
func (w *worker) answer(a *gate.Reply, keep bool) bool {
	keep = keep && !w.gate.Drain.Active()
	if !w.write(w.appendReply(w.toPeer[:0], a, keep)) {
		w.conn.close()
		return false
	}
	if !keep {
		w.linger()
	}
	return keep
}

// refuseHead answers a request whose head is not accepted, and closes.
func (w *worker) refuseHead(outcome gate.Outcome) {
	if o := w.gate.Observer; o != nil {
		o.Rejected(outcome)
	}
	a := gate.ReplyTo(outcome)
	w.answer(&a, false)
}

// refusePlaintext answers traffic that came without TLS where only TLS is
// served. Nothing of it is counted as a request.
func (w *worker) refusePlaintext() bool {
	if o := w.gate.Observer; o != nil {
		o.Rejected(gate.PlaintextRefused)
	}
	a := gate.ReplyTo(gate.PlaintextRefused)
	return w.answer(&a, w.skipBody() && w.req.KeepAlive())
}

// patience of a few seconds for clients that do not take their answer, or
// do not stop sending after it.
const (
	answerPatience = int64(5 * time.Second)
	lingerPatience = int64(2 * time.Second)
	lingerTotal    = int64(10 * time.Second)
)

// write sends b to the client, waiting for room if need be.
func (w *worker) write(b []byte) bool {
	until := w.now() + answerPatience
	for len(b) > 0 {
		n, err := w.conn.sock.Write(b)
		if b = b[n:]; err == nil {
			continue
		}
		if err != loop.ErrAgain || w.now() >= until || w.conn.sock.Failed() || w.eng.loop.Closing() {
			return false
		}
		w.task.Wait(until)
	}
	return true
}

// linger closes the connection in a way that lets the client read its answer
// while it still sends: a reset, which unread bytes would cause, could
// overtake the answer (RFC 9112 section 9.6).
func (w *worker) linger() {
	s := &w.conn.sock
	s.CloseWrite()
	end := w.now() + lingerTotal
	until := w.now() + lingerPatience
	for !s.Failed() && !w.eng.loop.Closing() && w.now() < min(until, end) {
		n, err := s.Read(w.in)
		if err == loop.ErrAgain {
			w.task.Wait(min(until, end))
			continue
		}
		if err != nil {
			break
		}
		if until = w.now() + lingerPatience; n == len(w.in) {
			w.task.Yield()
		}
	}
	w.r, w.w = 0, 0
	w.conn.close()
}
