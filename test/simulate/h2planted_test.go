package simulate

// h2faults are faults of HTTP/2. The first ones are faults that the gate has
// had.
var h2faults = []planted{
	{"an exchange in the line of HTTP/2 is not held", "pending.go", "	if d.line != &p.line {\n		if p.gate", "	if d.line == nil {\n		if p.gate"},
	{"a container that dies over a POST gets it again", "http2/upconn.go", "s.unprocessed, s.reused = why == gate.UpstreamMalformed, true", "s.unprocessed = true"},
	{"a malformed head over HTTP/2 is asked for again", "http2/upconn.go", "	s.heard = true // an answer, if a bad one: the request is not sent again\n", ""},
	{"a shutdown cuts a stream that its client had begun", "serve/shutdown.go", "if d.serves(now) {", "if false {"},
	{"any step ends the time for an answer to PING", "http2/upconn.go", "	case now < c.pingBy:\n", "	case false && now < c.pingBy:\n"},
	{"what stands in the gate's own buffer counts as sent", "http2/upstream.go", "return s.started && s.l.left(s.headAt)", "return s.started"},
	{"heads overtake interim ones that wait", "http2/upstream.go", "	if s.received || len(s.heads) > 0 {\n", "	if s.received {\n"},
	{"GOAWAY names the last stream at once", "http2/conn.go", "	c.state = announced\n", "	if c.state == open {\n		c.refuse()\n		return\n	}\n"},
	{"GOAWAY does not wait for streams that a client had begun", "http2/engine.go", "int64(200 * time.Millisecond)", "int64(0)"},
	{"a connection that takes no more streams closes under the last one", "http2/conn.go", "c.state == refusing && len(c.streams) == 0", "c.state == refusing && len(c.streams) <= 1"},
	{"the window of a stream is given back twice", "http2/flow.go", "	}\n	f.passed(n)\n", "	}\n	f.passed(2 * n)\n"},
	{"the window of a connection is given back twice", "http2/flow.go", "			f.l.passed(n)\n		} else {\n", "			f.l.passed(2 * n)\n		} else {\n"},
	{"the window of a connection is not given back", "http2/flow.go", "			f.l.passed(n)\n		} else {\n", "		} else {\n"},
	{"the window of a stream is not given back", "http2/flow.go", "	}\n	f.passed(n)\n", "	}\n"},
	{"DATA goes out beyond the window of its stream", "http2/flow.go", "n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, l.send.Left(), h2.MinMaxFrameSize)"},
	{"DATA goes out beyond the window of the connection", "http2/flow.go", "n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)", "n := min(len(p)-done, f.send.Left(), h2.MinMaxFrameSize)"},
	{"a window that is narrowed twice never opens again", "http2/upconn.go", "case s.recv.Size() < leastWindow:", "case false:"},
	{"streams do not follow a window of SETTINGS", "http2/flow.go", "	if err := f.send.Change(ch); err != nil {\n		return err\n	}\n", ""},
	{"a stream is not woken when its window opens", "http2/flow.go", "	if err := f.send.Update(increment, h2.Stream); err != nil {\n		return err\n	}\n	f.x.Wake()\n", "	if err := f.send.Update(increment, h2.Stream); err != nil {\n		return err\n	}\n"},
	{"the slot of a stream is lost at RST_STREAM", "http2/streams.go", "		s.flow.reset = true\n		s.x.Wake()\n		return c.meter.Reset(c.eng.loop.Now())\n", "		s.flow.reset = true\n		return c.meter.Reset(c.eng.loop.Now())\n"},
	{"END_STREAM is forgotten where DATA is at hand", "http2/flow.go", "		l.out.b[l.o+int(f.lastData-l.gone)+4] |= byte(h2.FlagEndStream)\n", ""},
	{"trailers of answers are left out over HTTP/2", "http2/flow.go", "	case len(trailers) > 0:\n", "	case len(trailers) > 1<<20:\n"},
	{"trailers of requests are left out over HTTP/2", "http2/stream.go", "	s.trailers = wire.TrailerLines(h)\n", ""},
	{"a cut answer ends like a whole one over HTTP/2", "http2/reply.go", "	if !s.req.GRPC() || s.Gone() || s.finished {\n		s.sendReset(h2.InternalError)\n", "	if !s.req.GRPC() || s.Gone() || s.finished {\n		s.Finish(nil)\n"},
	{"a client is not told that the rest of its request is not wanted", "http2/stream.go", "	if s.finished && !s.over {\n", "	if false {\n"},
	{"bounds per engine: as many again are held for a container that does not listen", "pending.go", "p.held.Load() >= int64(p.gate.QueueCapacity)", "p.held.Load() >= 2*int64(p.gate.QueueCapacity)"},
	{"PING is not answered", "http2/link.go", "	l.hold(h2.AppendPing(l.room(), true, [8]byte(f.Payload)))\n", ""},
	{"SETTINGS are not acknowledged", "http2/link.go", "	l.hold(h2.AppendSettingsAck(l.room()))\n", ""},
	{"a head of 100 does not go on over HTTP/2", "http2/client.go", "{ s.sendHead(up, false) }", "{ _ = up }"},
	{"a stream that ends stays in line", "http2/flow.go", "	f.l.waiting.leave(f)\n", ""},
	{"what a stream reserves is charged twice", "http2/flow.go", "		l.send.Take(n)\n", "		l.send.Take(2 * n)\n"},
}

func init() { faults = append(faults, h2faults...) }
