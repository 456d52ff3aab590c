//go:build planted

package simulate

// faults are faults that the simulation is to find. The first ones are faults that
// the gate has had.
var faults = []mutation{
	{"a connection goes back to the pool behind a 204 that announced a body",
		"http1.upstreamSide.Complete",
		"&& !u.spent", ""},
	{"an early answer does not say that the connection closes",
		"http1.clientSide.Respond",
		"&& c.reader.whole() && !s", "&& !s"},
	{"a reset that a write has met reads as an end",
		"loop.Sock.broken",
		"s.reset = s.reset || err == unix.ECONNRESET", ""},
	{"an exchange that changes the line stays counted as held",
		"exchange.DialLine.Join",
		`case &x.gate.Pending.line:
x.gate.Pending.leave(x)`, ""},
	{"a paused listener closes itself when a shutdown begins",
		"server.listener.resume",
		"if !l.paused || l.worker.Leaving() {", `if l.paused && l.worker.Leaving() {
l.close()
}
if !l.paused {`},
	{"a lingering connection is reset when its client half-closes",
		"http1.session.linger",
		"for !s.eng.loop.Closing() && s.now()", "for !sock.Failed() && !s.eng.loop.Closing() && s.now()"},
	{"a spliced answer whose client has left panics",
		"http1.reader.splice",
		`sink, ok := dst.(rawSink)
if !ok { // what`, `sink := dst.(rawSink)
if false { // what`},
	{"what is as long as a preface is one",
		"h2.MatchPreface",
		"return possible, possible && n", "return possible, n"},
	{"one more than the limit is admitted",
		"admission.Controller.TryAcquire",
		"if word&inFlightMask >= a.limit.Load() {", "if word&inFlightMask > a.limit.Load() {"},
	{"one more than the capacity is queued",
		"admission.Controller.exhausted",
		"word>>waitingShift >= a.capacity", "word>>waitingShift > a.capacity"},
	{"last come, first served",
		"admission.fifo.push",
		`w.prev = l.tail
if l.tail == nil {
l.head = w
} else {
l.tail.next = w
}
l.tail = w`, `w.next = l.head
if l.head == nil {
l.tail = w
} else {
l.head.prev = w
}
l.head = w`},
	{"a slot is handed over without a word",
		"admission.Controller.handOver",
		`notify()
return true`, `_ = notify
return true`},
	{"a slot is not given back",
		"admission.Ticket.Release",
		"if t.Slot || t.Queued && !a.Withdraw(&t.Waiter) {", "if t.Slot && t.WaitBy == 0 && a.InFlight() > 1 || t.Queued && !a.Withdraw(&t.Waiter) {"},
	{"a slot that comes while its waiter leaves is lost",
		"admission.Ticket.Release",
		"if t.Slot || t.Queued && !a.Withdraw(&t.Waiter) {", `if t.Queued {
a.Withdraw(&t.Waiter)
}
if t.Slot {`},
	{"a slot is given back with the head of the answer",
		"exchange.Exchange.awaitAnswer",
		"x.down.Respond(x.up.Response())", `x.down.Respond(x.up.Response())
x.ticket.Release(x.gate.Admission)`},
	{"a hard limit lets go of the slot with the client",
		"exchange.Exchange.left",
		"if !x.gate.HardConcurrency || x", "if x.gate.HardConcurrency || x"},
	{"the longest wait in the queue is not kept",
		"admission.Ticket.WaitExpired",
		"t.WaitBy != 0 && now >= t.WaitBy", "false"},
	{"a request that is not idempotent is sent again",
		"exchange.Exchange.failed",
		"x.down.Idempotent() && x.down.Rewind(true)", "x.down.Rewind(true)"},
	{"a request is sent again on a fresh connection that broke",
		"exchange.Exchange.failed",
		"(x.up.Reused() || mistaken) && x.tries == 0", "x.tries == 0"},
	{"a request is sent again as often as it fails",
		"exchange.Exchange.failed",
		"(x.up.Reused() || mistaken) && x.tries == 0 &&", "(x.up.Reused() || mistaken || x.tries > 0) &&"},
	{"a request is not sent again",
		"exchange.Exchange.failed",
		"case (x.up.Reused() || mistaken) && x.tries == 0 && !x.up.ResponseBegan():", "case false:"},
	{"a client that leaves while it is answered is not noticed",
		"exchange.Exchange.relay",
		`if x.down.Disconnected() && x.state != StateTunnelling {
return x.left()
}
moved`, "moved"},
	{"a client that leaves the queue is not noticed",
		"exchange.Exchange.Step",
		`case x.down.Disconnected():
o = gate.ClientGone
case x.state`, `case x.state`},
	{"the gate answers for a client that waits for a 100, but not for a silent container",
		"exchange.Exchange.relay",
		"case !moved && x.expects.due(now):", "case false && x.expects.due(now):"},
	{"interim answers go to HTTP/1.0",
		"http1.clientSide.Interim",
		`if c.session.req.Minor > 0 {`, `if true {`},
	{"interim answers are left out",
		"exchange.Exchange.interim",
		"x.down.Interim(x.up.Response())", ""},
	{"trailers are left out",
		"http1.writer.Finish",
		"out = append(out, trailers...)", ""},
	{"a cut answer without a length ends like a whole one",
		"http1.session.relay",
		"if s.client.endless {", "if false {"},
	{"a cut answer in chunks gets a last chunk",
		"http1.session.relay",
		"case exchange.CutOff:", `case exchange.CutOff:
s.client.Finish(nil)
s.client.Flush()`},
	{"pipelined requests are lost",
		"http1.input.takeRest",
		"in.r, in.w = rd.r, rd.w", "in.r, in.w = 0, 0"},
	{"connections are not closed slowly",
		"http1.session.beginLinger",
		"if s.eng.cfg.lingering.Inc() > maxLingering {", "if s.eng.cfg.lingering.Inc() > 0 {"},
	{"who takes a reply slowly is cut off after a second",
		"http1.replyTimeout",
		"replyTimeout  = int64(5 * time.Second)", "replyTimeout  = int64(time.Second)"},
	{"bytes behind an answer stay for the next one",
		"http1.upstreamSide.Complete",
		"len(u.reader.leftover()) == 0 &&", ""},
	{"idle connections are taken without a look",
		"http1.Pool.get",
		"if u.sock.Quiet() && (", "if ("},
	{"a connection that the container closes goes back to the pool",
		"http1.upstreamSide.Complete",
		"&& u.reusable && !u.StoppedReading()", "&& (u.reusable || u.sock.Open())"},
	{"a read that fills its buffer counts as the last",
		"loop.Sock.received",
		"if n < most && !s.hangup", "if n <= most && !s.hangup"},
	{"a deadline that moves to earlier is not kept",
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
		`h.queued.Store(false)
h.routine.Step()`, `h.routine.Step()
h.queued.Store(false)`},
	{"the request clock stands",
		"exchange.Clocks.Expired",
		"case c.request != 0 && now >= c.request:", "case c.request != 0 && now >= 2*c.request:"},
	{"the idle clock does not notice bytes",
		"exchange.Clocks.Moved",
		"c.active = now }", "_ = now }"},
	{"an interim answer does not stop the response start clock",
		"exchange.Exchange.awaitAnswer",
		`x.clocks.Started()
x.interims = true`, "x.interims = true"},
	{"the request clock cuts tunnels",
		"exchange.Clocks.Switched",
		"c.request, c.start = 0, 0", "c.start = 0"},
	{"a container that listens again is not noticed by those who wait",
		"exchange.PendingDials.Reached",
		`for x := p.line.first; x != nil; x = x.Dial.next {
x.Wake()
}`, ""},
	{"the next of the pending dials is not woken",
		"exchange.PendingDials.leave",
		`if p.line.first != nil && p.line.first != was {
p.line.first.Wake()
}`, "_ = was"},
	{"who was held waits for a descriptor in vain",
		"upstream.Dialer.holds",
		"return p.Holds(x) && !p.Clear()", "return p.Holds(x)"},
	{"pending dials give up too early",
		"exchange.PendingDials.Hold",
		"d.giveUp = now + int64(wait)", "d.giveUp = now + int64(wait)/2"},
	{"a descriptor of the budget is lost with each client",
		"http1.conn.release",
		`c.list.remove(c)
c.eng.gate.Descriptors.Release()`, "c.list.remove(c)"},
	{"the memory of bodies is not given back",
		"http1.buffers.putBulk",
		"b.bodies.Release(bulkBytes)", ""},
	{"a pipe is lost",
		"http1.reader.putPipe",
		`r.bufs.pipes.put(r.pipe)
r.pipe = nil`, "r.pipe = nil"},
	{"a shutdown resets its backlog",
		"server.Worker.leave",
		`for _, l := range w.listeners {
l.drain()
}`, ""},
	{"a shutdown does not wait for requests",
		"server.shutdown.serves",
		"drain.Requests() > 0 ||", ""},
	{"a drain is not quiet before it goes on",
		"exchange.Drain.look",
		"; left > 0 {", "; left > d.period {"},
	{"the answer to HEAD has a body",
		"wire.Response.readFields",
		`case r.Status == 304 || bytes.Equal(method, []byte("HEAD")):`, "case r.Status == 304:"},
	{"fields of the connection go on to the container",
		"wire.Request.readField",
		"case field.Connection, field.HopByHop,", "case field.HopByHop,"},
	{"extended CONNECT may have fields that frame a body",
		"wire.Request.ReadHTTP2",
		"if r.hasField(field.ContentLength) ||", "if"},
	{"a 2xx that declines an upgrade opens a tunnel",
		"http1.upstreamSide.readHead",
		"u.req.ExtendedConnect() && r.Status >= 200", "u.req.ExtendedConnect() && r.Status >= 300"},
	{"a protocol that was not asked for is switched to",
		"exchange.Exchange.awaitAnswer",
		"if !x.down.Ended() || !x.down.Upgrades(x.up.Response()) {", "if !x.down.Ended() {"},
}

// http2Faults are faults of HTTP/2. The first ones are faults that the gate has
// had.
var http2Faults = []mutation{
	{"an exchange in the line of HTTP/2 is not held",
		"exchange.PendingDials.Hold",
		`if d.line != &p.line {
if p.gate`, `if d.line == nil {
if p.gate`},
	{"a container that dies over a POST gets it again",
		"http2.upConn.mistaken",
		"s.unprocessed, s.reused = foreign, true", "s.unprocessed = true"},
	{"a malformed head over HTTP/2 is asked for again",
		"http2.upConn.reset",
		"s.heard = true // an answer, if a bad one: the request is not sent again", ""},
	{"a shutdown cuts a stream that its client had begun",
		"server.shutdown.Step",
		"if d.serves(now) {", "if false {"},
	{"any step ends the time for an answer to PING",
		"http2.upConn.watch",
		"case now < c.pingBy:", "case false && now < c.pingBy:"},
	{"what stands in the gate's own buffer counts as sent",
		"http2.upStream.Sent",
		"return s.started && s.l.left(s.headAt)", "return s.started"},
	{"heads overtake interim ones that wait",
		"http2.upStream.receiveHead",
		"if s.received || len(s.heads) > 0 {", "if s.received {"},
	{"GOAWAY names the last stream at once",
		"http2.conn.goAway",
		"c.state = announced", `if c.state == open {
c.refuse()
return
}`},
	{"GOAWAY does not wait for streams that a client had begun",
		"http2.goAwayGrace",
		"int64(200 * time.Millisecond)", "int64(0)"},
	{"a connection that takes no more streams closes under the last one",
		"http2.conn.streamEnded",
		"c.state == refusing && len(c.streams) == 0", "c.state == refusing && len(c.streams) <= 1"},
	{"the window of a stream is given back twice",
		"http2.flow.take",
		`}
f.passed(n)`, `}
f.passed(2 * n)`},
	{"the window of a connection is given back twice",
		"http2.flow.receiveData",
		`f.l.passed(n)
} else {`, `f.l.passed(2 * n)
} else {`},
	{"the window of a connection is not given back",
		"http2.flow.receiveData",
		`f.l.passed(n)
} else {`, "} else {"},
	{"the window of a stream is not given back",
		"http2.flow.take",
		`}
f.passed(n)`, "}"},
	{"DATA goes out beyond the window of its stream",
		"http2.flow.Write",
		"n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, l.send.Left(), h2.MinMaxFrameSize)"},
	{"DATA goes out beyond the window of the connection",
		"http2.flow.Write",
		"n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, f.send.Left(), h2.MinMaxFrameSize)"},
	{"a window that is narrowed twice never opens again",
		"http2.upConn.windowsSet",
		"case s.recv.Size() < leastWindow:", "case false:"},
	{"streams do not follow a window of SETTINGS",
		"http2.changeWindow",
		`if err := f.send.Change(ch); err != nil {
return err
}`, ""},
	{"a stream is not woken when its window opens",
		"http2.flow.updateWindow",
		`if err := f.send.Update(increment, h2.Stream); err != nil {
return err
}
f.x.Wake()`, `if err := f.send.Update(increment, h2.Stream); err != nil {
return err
}`},
	{"the slot of a stream is lost at RST_STREAM",
		"http2.clientStreams.streamFrame",
		`s.flow.reset = true
s.x.Wake()
return c.meter.Reset(c.eng.loop.Now())`, `s.flow.reset = true
return c.meter.Reset(c.eng.loop.Now())`},
	{"END_STREAM is forgotten where DATA is at hand",
		"http2.flow.Finish",
		"l.out.b[l.o+int(f.lastData-l.gone)+4] |= byte(h2.FlagEndStream)", ""},
	{"trailers of answers are left out over HTTP/2",
		"http2.flow.Finish",
		"case len(trailers) > 0:", "case len(trailers) > 1<<20:"},
	{"trailers of requests are left out over HTTP/2",
		"http2.stream.receiveTrailers",
		"s.trailers = wire.TrailerLines(h)", ""},
	{"a cut answer ends like a whole one over HTTP/2",
		"http2.stream.cutOff",
		`if !s.req.GRPC() || s.Disconnected() || s.finished {
s.sendReset(h2.InternalError)`, `if !s.req.GRPC() || s.Disconnected() || s.finished {
s.Finish(nil)`},
	{"a client is not told that the rest of its request is not wanted",
		"http2.stream.finish",
		"if s.finished && !s.over {", "if false {"},
	{"bounds per engine: as many again are held for a container that does not listen",
		"exchange.PendingDials.Hold",
		"p.held.Load() >= int64(p.gate.QueueCapacity)", "p.held.Load() >= 2*int64(p.gate.QueueCapacity)"},
	{"PING is not answered",
		"http2.link.ping",
		"l.hold(h2.AppendPing(l.room(), true, [8]byte(f.Payload)))", ""},
	{"SETTINGS are not acknowledged",
		"http2.link.applySettings",
		"l.hold(h2.AppendSettingsAck(l.room()))", ""},
	{"a head of 100 does not go on over HTTP/2",
		"http2.clientSide.Interim",
		"{ s.sendHead(res, false) }", "{ _ = res }"},
	{"a stream that ends stays in line",
		"http2.flow.close",
		"f.l.waiting.leave(f)", ""},
	{"trailers of requests are sent beside other streams",
		"http2.sendTrailers",
		`case len(c.streams) > 1:
if s.lateBy`, `case false:
if s.lateBy`},
	{"the container's limit on header lists is ignored",
		"http2.Pool.on",
		"case c.proven && !c.accepts(", "case false && !c.accepts("},
	{"what a stream reserves is charged twice",
		"http2.flow.Write",
		"l.send.Take(n)", "l.send.Take(2 * n)"},
}
