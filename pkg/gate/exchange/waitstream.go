package exchange

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// This file tells a client that its request still waits, because load balancers and
// browsers give up on a silent connection. It is off by default.
//
//   - An event stream (Config.WaitKeepalive): the gate sends the head of a stream of
//     server-sent events, and then a comment per interval. The body of the container's
//     response continues the stream; its head is discarded. A failure becomes an error
//     event.
//   - A waiting page (Config.WaitPage): a navigation that waits for a slot or for the
//     container to listen gets a page that reloads itself.

type waitConfig struct {
	keepalive time.Duration // interval of comments; 0 = no event streams
	page      time.Duration // time until the waiting page; 0 = no waiting page
}

// newWaitConfig returns nil if c enables neither form.
func newWaitConfig(c *Config) *waitConfig {
	if c.WaitKeepalive == 0 && c.WaitPage == 0 {
		return nil
	}
	return &waitConfig{keepalive: min(c.WaitKeepalive, maxTimeout), page: min(c.WaitPage, maxTimeout)}
}

// waitForm is the form in which a client is told that its request waits.
type waitForm uint8

const (
	waitMayPromise waitForm = iota // an event stream that has not begun
	waitPromised                   // an event stream whose head has been sent
	waitPage                       // a waiting page
)

// waiter is the Downstream of a request whose client is told that it waits. It wraps the
// real Downstream until the container's response head arrives.
type waiter struct {
	Downstream
	x      *Exchange
	at     int64 // time of the next comment or of the waiting page
	form   waitForm
	status int // status of a container response that cannot continue the event stream; 0 = none
}

const (
	waitComment = ": queuegate waiting\n\n"
	// waitReserve is the capacity in bytes that must remain after a comment, so that an
	// error event can be sent to a client that reads nothing.
	waitReserve = 512
	// waitRefresh is the reload interval of the waiting page in seconds.
	waitRefresh = 2
)

// waitingPage is the body of the local reply for gate.WaitingPage.
var waitingPage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="` + strconv.Itoa(waitRefresh) + `">
<title>Starting</title>
<style>body{font:1.1em system-ui,sans-serif;margin:20vh auto;max-width:30em;padding:0 1em;text-align:center;color:#333}</style>
</head>
<body>
<h1>Please wait</h1>
<p>The application is starting or busy. This page loads again by itself.</p>
</body>
</html>
`

// beginWait gives x a waiter if its client can be told that it waits. A stream is
// promised only if the request prefers an event stream to all other types, because the
// container might choose another type.
func (x *Exchange) beginWait() {
	c := x.settings.wait
	req, _ := x.down.Request()
	if x.Upgrade || req.GRPC() {
		return
	}
	isGET := string(req.Method) == "GET"
	if c.keepalive > 0 && (isGET || string(req.Method) == "POST") {
		if weight, others := req.AcceptWeight(wire.EventStreamType); weight > others {
			req.DropAcceptEncoding()
			x.down = &waiter{Downstream: x.down, x: x, at: x.timeouts.Arrived + int64(c.keepalive), form: waitMayPromise}
			return
		}
	}
	if c.page > 0 && isGET && req.Navigates() {
		if weight, _ := req.AcceptWeight("text/html"); weight > 0 {
			x.down = &waiter{Downstream: x.down, x: x, at: x.timeouts.Arrived + int64(c.page), form: waitPage}
		}
	}
}

// waiter returns the waiter of x; nil = none.
func (x *Exchange) waiter() *waiter {
	if x.settings.wait == nil {
		return nil
	}
	w, _ := x.down.(*waiter)
	return w
}

// promised reports whether an event stream has been promised and the container's response
// has not yet continued it.
func (x *Exchange) promised() bool {
	w := x.waiter()
	return w != nil && w.form == waitPromised
}

// stepWaiting is Step for an exchange that may have a waiter.
func (x *Exchange) stepWaiting(now int64) (e Ending, o gate.Outcome, next int64) {
	e, o, next = x.step(now)
	w := x.waiter()
	if e != Ongoing || w == nil || x.state == StateAbandoned {
		return e, o, next
	}
	at := w.at
	if now >= at {
		at, o = w.tell(now)
	}
	if o != gate.Undecided {
		return x.conclude(o), o, 0
	}
	return Ongoing, gate.Undecided, gate.Earliest(next, at)
}

// tell tells the client that it waits. It returns the time of the next call; 0 = none is
// scheduled.
func (w *waiter) tell(now int64) (next int64, o gate.Outcome) {
	x := w.x
	switch {
	case w.form == waitPage && x.state == StateAwaiting:
		return 0, gate.Undecided // the container has the request and will respond itself
	case w.form == waitPage:
		return 0, gate.WaitingPage
	case w.form == waitMayPromise && !w.Received():
		return 0, gate.Undecided // some clients read no response until they have sent the whole request
	}
	w.at = now + int64(x.settings.wait.keepalive)
	if _, empty := w.Flush(); empty && w.Capacity() >= len(waitComment)+waitReserve {
		if w.form == waitMayPromise {
			w.form, x.Status = waitPromised, wire.EventStreamHead.Status
			w.Promise(wire.EventStreamHead)
		}
		w.Write([]byte(waitComment))
		w.Flush()
	}
	switch { // no event reports a reset after a half-close
	case !w.Broken():
	case x.up == nil:
		return 0, gate.ClientGone
	default:
		x.Wake() // the next step ends the exchange
	}
	return w.at, gate.Undecided
}

// checkPromise returns NotEventStream if res cannot continue the promised event stream;
// otherwise Undecided.
func (x *Exchange) checkPromise(res *wire.Response) gate.Outcome {
	if !x.promised() || res.IsEventStream() {
		return gate.Undecided
	}
	x.waiter().status = res.Status
	return gate.NotEventStream
}

// Respond implements Downstream. The head of a promised response has already been sent.
func (w *waiter) Respond(res *wire.Response) {
	w.x.down = w.Downstream
	if w.form != waitPromised {
		w.Downstream.Respond(res)
	}
}

// Interim implements Downstream. Interim responses must not follow the head of a promised
// response.
func (w *waiter) Interim(res *wire.Response) {
	if w.form != waitPromised {
		w.Downstream.Interim(res)
	}
}

// breakPromise ends the promised event stream, if any, of an exchange rejected with o. It
// sends an error event, or cuts the stream off if the client reads nothing.
func (x *Exchange) breakPromise(o gate.Outcome) Ending {
	if !x.promised() {
		return Rejected
	}
	w := x.waiter()
	event := w.appendError(nil, o)
	if _, empty := w.Flush(); !empty || w.Capacity() < len(event) || w.Write(event) < len(event) {
		return CutOff
	}
	w.Finish(nil)
	if _, empty := w.Flush(); !empty {
		return CutOff
	}
	return Completed
}

// appendError appends the error event for an outcome in the form of OpenAI's API.
func (w *waiter) appendError(dst []byte, o gate.Outcome) []byte {
	m := o.Meaning()
	text := m.Body
	if text == "" {
		text = m.Means
	}
	dst = append(append(dst, `event: error`+"\n"+`data: {"error":{"message":"`...), text...)
	if w.status != 0 {
		dst = strconv.AppendInt(append(dst, ": status "...), int64(w.status), 10)
	}
	dst = append(append(dst, `","type":"queuegate","param":null,"code":"`...), m.Name...)
	return append(dst, `"}}`+"\n\n"...)
}
