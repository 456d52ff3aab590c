//go:build planted

package simulate

// faults are planted in the gate, one at a time, for the simulation to find. The first
// ones are faults that the gate has had.
var faults = []mutation{
	{"a connection is pooled after a 204 that announced a body",
		"http1.upConn.Complete",
		"&& !u.desynced", ""},
	{"an early response does not announce the close of its connection",
		"http1.downSide.respond",
		"&& whole && !s", "&& !s"},
	{"a reset noticed by a write is read as EOF",
		"loop.Sock.noteWriteError",
		"s.resetByWrite = s.resetByWrite || err == unix.ECONNRESET", ""},
	{"an exchange that changes the queue stays counted in the connect queue",
		"exchange.WaitQueue.Add",
		`case &x.gate.Connects.queue:
x.gate.Connects.remove(x)`, ""},
	{"a paused listener closes itself when a shutdown begins",
		"server.listener.resume",
		"if !l.paused || l.worker.ShuttingDown() {", `if l.paused && l.worker.ShuttingDown() {
l.close()
}
if !l.paused {`},
	{"a lingering connection is reset when its client half-closes",
		"http1.session.linger",
		"for !s.eng.loop.Closing() && s.now()", "for !sock.Failed() && !s.eng.loop.Closing() && s.now()"},
	{"a spliced response whose client has disconnected panics",
		"http1.reader.splice",
		`sink, ok := dst.(rawSink)
if !ok { // what`, `sink := dst.(rawSink)
if false { // what`},
	{"any bytes as long as a preface are taken for one",
		"h2.MatchPreface",
		"return possible, possible && n", "return possible, n"},
	{"a request above the limit is admitted",
		"admission.Controller.TryAcquire",
		"word&inFlightMask >= b.limit() ||", "word&inFlightMask > b.limit() ||"},
	{"a request above the queue capacity is queued",
		"admission.bounds.exhausted",
		"word>>waitingShift >= b.capacity()", "word>>waitingShift > b.capacity()"},
	{"the queue is last in, first out",
		"admission.Controller.pop",
		"w = a.fifo.First()", "w = a.fifo.Last()"},
	{"a granted slot is not notified",
		"admission.Controller.handOver",
		`notify()
return true`, `_ = notify
return true`},
	{"a slot is not released",
		"admission.Ticket.Release",
		"if t.Slot || t.Queued && !a.Withdraw(&t.Waiter) {", "if t.Slot && t.WaitBy == 0 && a.InFlight() > 1 || t.Queued && !a.Withdraw(&t.Waiter) {"},
	{"a slot granted to a withdrawing request is lost",
		"admission.Ticket.Release",
		"if t.Slot || t.Queued && !a.Withdraw(&t.Waiter) {", `if t.Queued {
a.Withdraw(&t.Waiter)
}
if t.Slot {`},
	{"a slot is released with the head of the response",
		"exchange.Exchange.awaitResponse",
		"x.down.Respond(x.up.Response())", `x.down.Respond(x.up.Response())
x.ticket.Release(x.gate.Admission)`},
	{"a hard limit releases the slot when the client disconnects",
		"exchange.Exchange.hold",
		"if !x.gate.HardConcurrency || x", "if x.gate.HardConcurrency || x"},
	{"the maximum wait in the queue is not enforced",
		"admission.Ticket.WaitExpired",
		"t.WaitBy != 0 && now >= t.WaitBy", "false"},
	{"a non-idempotent request is retried",
		"exchange.Exchange.failed",
		"x.down.Idempotent() && x.down.Rewind(true)", "x.down.Rewind(true)"},
	{"a request is retried after a new connection broke",
		"exchange.Exchange.failed",
		"(x.up.Reused() || mismatch) && x.retries == 0", "x.retries == 0"},
	{"a request is retried without a limit",
		"exchange.Exchange.failed",
		"(x.up.Reused() || mismatch) && x.retries == 0 &&", "(x.up.Reused() || mismatch || x.retries > 0) &&"},
	{"a request is not retried",
		"exchange.Exchange.failed",
		"case (x.up.Reused() || mismatch) && x.retries == 0 && !x.up.ResponseBegan():", "case false:"},
	{"a client that disconnects during the response is not noticed",
		"exchange.Exchange.relay",
		`if x.down.Disconnected() && x.state != StateTunnelling {
return x.disconnected()
}
moved`, "moved"},
	{"a client that disconnects in the queue is not noticed",
		"exchange.Exchange.step",
		`case x.down.Disconnected():
o = gate.ClientGone
case x.state`, `case x.state`},
	{"the gate does not send a 100 for a silent container",
		"exchange.Exchange.relay",
		"case !moved && x.expects.due(now):", "case false && x.expects.due(now):"},
	{"interim responses are sent to HTTP/1.0 clients",
		"http1.downSide.Interim",
		`if c.session.req.Minor > 0 {`, `if true {`},
	{"interim responses are not forwarded",
		"exchange.Exchange.interim",
		"x.down.Interim(x.up.Response())", ""},
	{"trailers are not forwarded",
		"http1.writer.Finish",
		"out = append(out, trailers...)", ""},
	{"a truncated response without a length ends like a complete one",
		"http1.session.relay",
		"if s.client.untilClose {", "if false {"},
	{"a truncated chunked response gets a last chunk",
		"http1.session.relay",
		"case exchange.CutOff:", `case exchange.CutOff:
s.client.Finish(nil)
s.client.Flush()`},
	{"pipelined requests are lost",
		"http1.input.takeLeftover",
		"in.r, in.w = rd.r, rd.w", "in.r, in.w = 0, 0"},
	{"connections do not linger",
		"http1.session.beginLinger",
		"if s.eng.cfg.lingering.Inc() > maxLingering {", "if s.eng.cfg.lingering.Inc() > 0 {"},
	{"a client that reads a reply slowly is disconnected after a second",
		"http1.replyTimeout",
		"replyTimeout  = int64(5 * time.Second)", "replyTimeout  = int64(time.Second)"},
	{"bytes after a response are kept for the next one",
		"http1.upConn.Complete",
		"len(u.reader.leftover()) == 0 &&", ""},
	{"idle connections are used without a check",
		"http1.upConn.quiet",
		"retryable && u.sock.QuietAtPoll(maxPollAge) || u.sock.Quiet()", "true"},
	{"a poll that returned some of the pending events counts as complete",
		"loop.Loop.pollNow",
		"l.polledAll = !more", "l.polledAll = more || true"},
	{"a connection that the container closes is pooled",
		"http1.upConn.Complete",
		"&& u.reusable && !u.StoppedReading()", "&& (u.reusable || u.sock.Open())"},
	{"a read that fills its buffer counts as draining the socket",
		"loop.Sock.noteRead",
		"if n < most && !s.hangup", "if n <= most && !s.hangup"},
	{"an earlier deadline does not move the timer",
		"loop.timerHeap.ensure",
		`if t.when <= when {
return
}
t.when = when`, `if t.when <= when || t.when > 0 {
return
}
t.when = when`},
	{"a wake-up during a step is lost",
		"loop.Loop.runWoken",
		`h.woken.Store(false)
h.routine.Step()`, `h.routine.Step()
h.woken.Store(false)`},
	{"the request timeout is too long",
		"exchange.Timeouts.Expired",
		"case c.requestDeadline != 0 && now >= c.requestDeadline:", "case c.requestDeadline != 0 && now >= 2*c.requestDeadline:"},
	{"bytes do not restart the idle timeout",
		"exchange.Timeouts.NoteActivity",
		"c.lastActivity = now }", "_ = now }"},
	{"an interim response does not stop the response-start timeout",
		"exchange.Exchange.awaitResponse",
		`x.timeouts.ResponseStarted()
x.interims = true`, "x.interims = true"},
	{"the request timeout applies to tunnels",
		"exchange.Timeouts.BeginTunnel",
		"c.requestDeadline, c.startDeadline = 0, 0", "c.startDeadline = 0"},
	{"a container that listens again does not wake queued requests",
		"exchange.ConnectQueue.Reached",
		"p.queue.WakeAll()", ""},
	{"the next request in the connect queue is not woken",
		"exchange.ConnectQueue.remove",
		`if p.queue.First() != nil && p.queue.First() != was {
p.queue.First().Wake()
}`, "_ = was"},
	{"a request of the connect queue waits for a descriptor forever",
		"upstream.Dialer.inConnectQueue",
		"return p.Contains(x) && !p.Clear()", "return p.Contains(x)"},
	{"the connect queue gives up too early",
		"exchange.ConnectQueue.expired",
		"d.deadline = now + int64(wait)", "d.deadline = now + int64(wait)/2"},
	{"a descriptor of the budget is lost with each client",
		"http1.conn.release",
		`c.Set().Remove(c)
c.eng.gate.Descriptors.Release()`, "c.Set().Remove(c)"},
	{"the memory of bodies is not released",
		"http1.buffers.putBulk",
		"b.bodies.Release(bulkBytes)", ""},
	{"a pipe is leaked",
		"http1.reader.putPipe",
		`r.bufs.pipes.put(r.pipe)
r.pipe = nil`, "r.pipe = nil"},
	{"a shutdown resets its backlog",
		"server.Worker.stopAccepting",
		`for _, l := range w.listeners {
l.drain()
}`, ""},
	{"a shutdown does not wait for requests",
		"server.shutdown.busy",
		"drain.Requests() > 0 ||", ""},
	{"a drain ends before it is quiet",
		"exchange.Drain.checkQuiet",
		"; left > 0 {", "; left > d.period {"},
	{"the response to HEAD has a body",
		"wire.Response.readFields",
		`case r.Status == 304 || bytes.Equal(method, []byte("HEAD")):`, "case r.Status == 304:"},
	{"connection-specific fields are forwarded to the container",
		"wire.Request.readField",
		"case field.Connection, field.HopByHop,", "case field.HopByHop,"},
	{"extended CONNECT may have fields that frame a body",
		"wire.Request.ReadHTTP2",
		"if r.hasField(field.ContentLength) ||", "if"},
	{"a 2xx that declines an upgrade opens a tunnel",
		"http1.upConn.readHead",
		"u.req.ExtendedConnect() && r.Status >= 200", "u.req.ExtendedConnect() && r.Status >= 300"},
	{"requests are admitted although the upstream has no room",
		"admission.quota.begin",
		"q.room--", ""},
	{"a stale page counts requests admitted since as not admitted",
		"admission.Controller.SetRoom",
		"n - int64(a.quota.admitted-since)", "n + 0*int64(since)"},
	{"a request evicts one of its own class",
		"exchange.Eviction.victim",
		"max(e.Class, waiting+1)", "max(e.Class, waiting)"},
	{"the oldest request is evicted",
		"exchange.evictions.evict",
		`victim := r.inFlight[c].Last()`, `victim := r.inFlight[c].First()`},
	{"a request evicts another one before its wait is over",
		"exchange.overload.checkEviction",
		"now < e.due", "2*(now-x.timeouts.Arrived) < e.due-x.timeouts.Arrived"},
	{"evictions exceed their budget",
		"exchange.tokenBucket.take",
		"b.full = full", "_ = full"},
	{"the victim of an eviction is not woken",
		"exchange.evictions.evict",
		"victim.wake()", ""},
	{"an evicted response ends like a complete one",
		"exchange.Exchange.conclude",
		`if o == gate.Evicted {
x.tracked.events.abort()
}`, `if o == gate.Evicted {
x.down.Finish(nil)
x.down.Flush()
}`},
	{"a 101 switches to a protocol that was not offered",
		"exchange.Exchange.awaitResponse",
		"if !x.down.Ended() || !x.down.Upgrades(x.up.Response()) {", "if !x.down.Ended() {"},
}

// http2Faults are planted faults of HTTP/2. The first ones are faults that the gate has
// had.
var http2Faults = []mutation{
	{"an exchange in the connect queue of HTTP/2 is not counted",
		"exchange.ConnectQueue.join",
		"if x.Dial.queue == &p.queue {", "if x.Dial.queue != nil {"},
	{"a POST is retried after the container crashed",
		"http2.upConn.endUnproven",
		"case foreign:", "default:"},
	{"a request is retried after a malformed head over HTTP/2",
		"http2.upConn.reset",
		"s.responseBegan = true", ""},
	{"a shutdown cuts a stream that its client had opened",
		"server.shutdown.Step",
		"if d.busy(now) {", "if false {"},
	{"any step ends the wait for the acknowledgement of PING",
		"http2.upConn.watchLiveness",
		"case now < c.pingDeadline:", "case false && now < c.pingDeadline:"},
	{"bytes in the output buffer count as sent",
		"http2.upStream.Sent",
		"return s.sendState != sendIdle && s.c.mayBeSent(s.headAt)", "return s.sendState != sendIdle"},
	{"heads overtake queued interim heads",
		"http2.upStream.receiveHead",
		"if s.headReady || len(s.heads) > 0 {", "if s.headReady {"},
	{"GOAWAY names the last stream at once",
		"http2.downConn.goAway",
		"c.enter(announced)", `if c.state == open {
c.stopAccepting()
return
}`},
	{"GOAWAY does not wait for streams that a client had opened",
		"http2.goAwayGrace",
		"int64(200 * time.Millisecond)", "int64(0)"},
	{"a draining connection closes before its last stream has ended",
		"http2.downConn.streamEnded",
		"c.state == draining && len(c.table.open) == 0", "c.state == draining && len(c.table.open) <= 1"},
	{"credit of a stream is released twice",
		"http2.stream.consume",
		`}
s.releaseCredit(n)`, `}
s.releaseCredit(2 * n)`},
	{"credit of a connection is released twice",
		"http2.stream.receiveData",
		`c.releaseCredit(n)
} else {`, `c.releaseCredit(2 * n)
} else {`},
	{"credit of a connection is not released",
		"http2.stream.receiveData",
		`c.releaseCredit(n)
} else {`, "} else {"},
	{"credit of a stream is not released",
		"http2.stream.consume",
		`}
s.releaseCredit(n)`, "}"},
	{"DATA exceeds the window of its stream",
		"http2.stream.Write",
		"n := min(len(p)-done, s.send.Left(), c.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, c.send.Left(), h2.MinMaxFrameSize)"},
	{"DATA exceeds the window of the connection",
		"http2.stream.Write",
		"n := min(len(p)-done, s.send.Left(), c.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, s.send.Left(), h2.MinMaxFrameSize)"},
	{"a window that has shrunk twice never opens again",
		"http2.upConn.applyWindowSetting",
		"case s.recv.Size() < minWindow:", "case false:"},
	{"an exhausted window is not announced to read ahead",
		"http2.upStream.ReadAhead",
		"if s.recv.Left() == 0 {", "if false {"},
	{"streams ignore a new initial window of SETTINGS",
		"http2.streamTable.changeWindows",
		`if err := f.send.ApplySettings(ch); err != nil {
return err
}`, ""},
	{"a stream is not woken when its window opens",
		"http2.stream.updateWindow",
		`if err := s.send.Update(increment, h2.Stream); err != nil {
return err
}
s.x.Wake()`, `if err := s.send.Update(increment, h2.Stream); err != nil {
return err
}`},
	{"the slot of a stream is lost at RST_STREAM",
		"http2.downConn.receiveStreamFrame",
		`s.reset = true
s.x.Wake()
return c.meter.Reset(c.eng.loop.Now())`, `s.reset = true
return c.meter.Reset(c.eng.loop.Now())`},
	{"END_STREAM is lost while DATA is buffered",
		"http2.stream.Finish",
		"c.out.b[c.outStart+int(s.lastDataAt-c.written)+4] |= byte(h2.FlagEndStream)", ""},
	{"response trailers are dropped over HTTP/2",
		"http2.stream.Finish",
		"case len(trailers) > 0:", "case len(trailers) > 1<<20:"},
	{"request trailers are dropped over HTTP/2",
		"http2.downStream.receiveTrailers",
		"s.trailers = wire.TrailerLines(h)", ""},
	{"a truncated response ends like a complete one over HTTP/2",
		"http2.downStream.truncate",
		`if !s.req.GRPC() || s.Disconnected() || s.sendState == sendEnded {
s.sendReset(h2.InternalError)`, `if !s.req.GRPC() || s.Disconnected() || s.sendState == sendEnded {
s.Finish(nil)`},
	{"a client is not told that the rest of its request is not needed",
		"http2.downStream.finish",
		"if s.sendState == sendEnded && !s.endReceived() {", "if false {"},
	{"the connect queue holds twice its capacity",
		"exchange.ConnectQueue.join",
		"p.num.Load() >= int64(x.settings.queueCapacity)", "p.num.Load() >= 2*int64(x.settings.queueCapacity)"},
	{"PING is not acknowledged",
		"http2.conn.acknowledge",
		"c.queue(h2.AppendPing(c.outBuffer(), true, [8]byte(ping.Payload)))", ""},
	{"SETTINGS are not acknowledged",
		"http2.conn.receiveSettings",
		"c.queue(h2.AppendSettingsAck(c.outBuffer()))", ""},
	{"interim responses are not forwarded over HTTP/2",
		"http2.downStream.Interim",
		"{ s.queueHead(res, false, wire.Framing{}) }", "{ _ = res }"},
	{"a closed stream stays in the blocked queue",
		"http2.stream.close",
		"s.c.blocked.remove(s)", ""},
	{"request trailers are sent while other streams are open",
		"http2.trySendTrailers",
		`case len(c.table.open) > 1:
if s.trailersDeadline`, `case false:
if s.trailersDeadline`},
	{"the container's limit on header lists is ignored",
		"http2.Pool.assign",
		"case c.proven && !c.accepts(", "case false && !c.accepts("},
	{"DATA is charged twice to the connection window",
		"http2.stream.Write",
		"c.send.Consume(n)", "c.send.Consume(2 * n)"},
}
