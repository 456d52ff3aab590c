package exchange

import (
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// While a request waits, the gate can send a sign of life to the client, because load
// balancers and browsers give up on a silent connection. There are two forms, both off by
// default:
//
//   - An event stream (Config.WaitKeepalive). The gate sends the head of a stream of
//     server-sent events, and then one comment per interval. The body of the container's
//     response continues the stream, and the head of that response is discarded. If the
//     request fails, the gate sends an error event.
//   - A waiting page (Config.WaitPage). If a browser's navigation waits for a slot or
//     until the container listens, it gets a page that reloads itself.

type waitConfig struct {
	// keepalive is the interval of the comments in an event stream; 0 = no event streams
	// are sent.
	keepalive time.Duration
	page      time.Duration // time until the waiting page; 0 = no waiting page
}

// newWaitConfig returns nil if c enables neither event streams nor waiting pages.
func newWaitConfig(c *Config) *waitConfig {
	if c.WaitKeepalive == 0 && c.WaitPage == 0 {
		return nil
	}
	return &waitConfig{keepalive: min(c.WaitKeepalive, maxTimeout), page: min(c.WaitPage, maxTimeout)}
}

// waitForm is the way in which the gate tells a client that its request is waiting.
type waitForm uint8

const (
	waitMayPromise waitForm = iota // an event stream; its head has not been sent yet
	waitPromised                   // an event stream; its head has been sent
	waitPage                       // a waiting page
)

// waiter wraps the Downstream of a request, so that the gate can tell the client that the
// request is waiting. When the container's final response head arrives, the exchange uses
// the wrapped Downstream again.
type waiter struct {
	Downstream
	x      *Exchange
	nextAt int64 // time of the next comment or of the waiting page
	form   waitForm
	// status is the status of the container's response if that response is no event
	// stream, although the gate has already sent the head of one. Otherwise it is 0.
	status int
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

// beginWait gives x a waiter if the gate may tell the client that the request is waiting.
// It chooses an event stream only if the request prefers this type to all other types,
// because the container might otherwise respond with another type.
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
			x.down = &waiter{Downstream: x.down, x: x, nextAt: x.timeouts.Arrived + int64(c.keepalive), form: waitMayPromise}
			return
		}
	}
	if c.page > 0 && isGET && req.Navigates() {
		if weight, _ := req.AcceptWeight("text/html"); weight > 0 {
			x.down = &waiter{Downstream: x.down, x: x, nextAt: x.timeouts.Arrived + int64(c.page), form: waitPage}
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

// promised reports whether the gate has sent the head of an event stream, and the
// container's response has not yet continued this stream.
func (x *Exchange) promised() bool {
	w := x.waiter()
	return w != nil && w.form == waitPromised
}

// stepWaiting runs a step. If the request is still waiting afterwards and the time in
// waiter.nextAt has come, stepWaiting tells the client.
func (x *Exchange) stepWaiting(now int64) (r StepResult, o gate.Outcome, next int64) {
	r, o, next = x.step(now)
	w := x.waiter()
	if r != Ongoing || w == nil || x.state == StateAbandoned {
		return r, o, next
	}
	at := w.nextAt
	if now >= at {
		at, o = w.notifyClient(now)
	}
	if o != gate.Undecided {
		return x.conclude(o), o, 0
	}
	return Ongoing, gate.Undecided, gate.Earliest(next, at)
}

// notifyClient tells the client that its request is waiting. It sends a comment in the
// event stream, or returns the outcome WaitingPage, which ends the exchange with that
// page. The result next is the time at which notifyClient must be called again; 0 = in
// the next step of the exchange.
func (w *waiter) notifyClient(now int64) (next int64, o gate.Outcome) {
	x := w.x
	switch {
	case w.form == waitPage && x.state == StateAwaiting:
		return 0, gate.Undecided // the container has the request and will respond itself
	case w.form == waitPage:
		return 0, gate.WaitingPage
	case w.form == waitMayPromise && !w.Received():
		// Do not send a response head yet. Some clients do not read the response until
		// they have sent the whole request.
		return 0, gate.Undecided
	}
	w.nextAt = now + int64(x.settings.wait.keepalive)
	if _, empty := w.Flush(); empty && w.Capacity() >= len(waitComment)+waitReserve {
		if w.form == waitMayPromise {
			w.form, x.Status = waitPromised, wire.EventStreamHead.Status
			w.Promise(wire.EventStreamHead)
		}
		w.Write([]byte(waitComment))
		w.Flush()
	}
	switch { // a failed write may be the first sign of a reset by the client
	case !w.Broken():
	case x.up == nil:
		return 0, gate.ClientGone
	default:
		x.Wake() // the next step ends the exchange
	}
	return w.nextAt, gate.Undecided
}

// checkPromise returns NotEventStream if the gate has sent the head of an event stream
// but res is no event stream. Otherwise it returns Undecided.
func (x *Exchange) checkPromise(res *wire.Response) gate.Outcome {
	if !x.promised() || res.IsEventStream() {
		return gate.Undecided
	}
	x.waiter().status = res.Status
	return gate.NotEventStream
}

// Respond implements Downstream. If the gate has already sent the head of an event
// stream, Respond discards the head res. The body of the response then continues the
// stream.
func (w *waiter) Respond(res *wire.Response) {
	w.x.down = w.Downstream
	if w.form != waitPromised {
		w.Downstream.Respond(res)
	}
}

// Continue implements Downstream. If the gate has already sent the head of an event
// stream, Continue sends no 100, because a 1xx response must not follow a final head. The
// client does not wait for the 100, because the gate sends that head only after it has
// received the whole request.
func (w *waiter) Continue() {
	if w.form != waitPromised {
		w.Downstream.Continue()
	}
}

// Interim implements Downstream. If the gate has already sent the head of an event
// stream, Interim drops the 1xx response, because it must not follow a final head.
func (w *waiter) Interim(res *wire.Response) {
	if w.form != waitPromised {
		w.Downstream.Interim(res)
	}
}

// breakPromise determines how an exchange ends that is rejected with the outcome o. If
// the gate has not sent the head of an event stream, breakPromise returns Rejected.
// Otherwise it sends an error event, ends the stream and returns Completed. If the event
// cannot be sent because the client does not read, it returns CutOff.
func (x *Exchange) breakPromise(o gate.Outcome) StepResult {
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
