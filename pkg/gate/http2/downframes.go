package http2

import "github.com/queuegate/queuegate/pkg/gate/wire/h2"

// find returns an open stream.
func (c *downConn) find(id uint32) *downStream {
	return find(c.streams, id)
}

// streamFrame acts on RST_STREAM, PRIORITY and WINDOW_UPDATE of a stream.
func (c *downConn) streamFrame(f *h2.Frame) *h2.Error {
	event, _ := h2.EventOf(f)
	s, err := c.admits(f.Stream, event)
	switch {
	case err != nil:
		return err
	case f.Err != nil && s != nil:
		return c.reset(s, f.Err)
	case f.Err != nil && f.Stream > c.peers.Last(): // there is no stream yet that could end
		return &h2.Error{Code: f.Err.Code, Scope: h2.Connection, Fault: f.Err.Fault, Reason: f.Err.Reason}
	case s == nil && f.Type == h2.RSTStream:
		return c.meter.Reset(c.eng.loop.Now())
	case s == nil:
		return nil
	}
	switch f.Type {
	case h2.RSTStream:
		s.stream.reset = true
		s.x.Wake()
		return c.meter.Reset(c.eng.loop.Now())
	case h2.WindowUpdate:
		if err := s.updateWindow(f.Increment); err != nil {
			return c.reset(s, err)
		}
	}
	return nil
}

// admits applies the state of a stream to an event. Without a stream the frame
// is passed over, unless an error ends the connection.
func (c *downConn) admits(id uint32, event h2.Event) (*downStream, *h2.Error) {
	s := c.find(id)
	var stream *stream
	state, err := h2.Idle, (*h2.Error)(nil)
	if s != nil {
		stream = &s.stream
	} else if state, err = c.peers.StateOf(id, c.history); err != nil {
		return nil, err
	}
	accepted, err := receiveEvent(stream, state, event)
	switch {
	case accepted:
		return s, nil
	case err == nil:
		return nil, nil
	}
	if err.Scope == h2.Connection {
		return nil, err
	}
	if s != nil && !s.state.Closed() {
		return nil, c.reset(s, err)
	}
	c.fault(err.Fault)
	c.queue(h2.AppendRSTStream(c.room(), id, err.Code))
	return nil, c.countReset()
}

// data acts on a piece of a DATA frame.
func (c *downConn) receiveDataFrame(f *h2.Frame) *h2.Error {
	if f.First {
		if err := c.recv.Receive(f.Length, h2.Connection); err != nil {
			return err
		}
		c.widen()
	}
	event, _ := h2.EventOf(f)
	s, err := c.admits(f.Stream, event)
	if err != nil {
		return err
	}
	if s == nil {
		c.dropData(f)
		if len(f.Payload) == 0 && !f.EndStream {
			return nil // has been counted
		}
		return c.countLate(len(f.Payload))
	}
	if !f.CarriesNothing() {
		c.meter.Useful(len(f.Payload))
	}
	if err := s.receiveData(f); err != nil {
		return c.reset(s, err)
	}
	return nil
}

// widen opens the window of a connection that carries bodies.
func (c *downConn) widen() {
	if c.recv.Size() >= connWindow || c.eng.short() || c.eng.tight() {
		return
	}
	if inc := c.recv.Resize(connWindow); inc > 0 {
		c.queue(h2.AppendWindowUpdate(c.room(), 0, inc))
	}
}

// reset ends a stream for a fault of the peer.
func (c *downConn) reset(s *downStream, err *h2.Error) *h2.Error {
	if err.Scope == h2.Connection {
		return err
	}
	c.fault(err.Fault)
	if err.Fault == h2.FaultMalformed {
		s.malformed = true
	}
	s.sendReset(err.Code)
	s.x.Wake()
	return c.countReset()
}

// countReset holds a reset that a peer has caused against the limit.
func (c *downConn) countReset() *h2.Error {
	if err := c.meter.Reset(c.eng.loop.Now()); err != nil {
		return err
	}
	return c.meter.Reply()
}

// changeWindows applies a change of SETTINGS_INITIAL_WINDOW_SIZE.
func (c *downConn) changeWindows(ch h2.Changes) *h2.Error {
	for _, s := range c.streams {
		if err := changeWindow(&s.stream, ch); err != nil {
			return err
		}
	}
	return nil
}

// crowded reports that the client has as many streams as it may have. Those
// that have been reset, and end with the batch, are not counted for as long as
// they are few.
func (c *downConn) atMaxStreams() bool {
	if len(c.streams) < maxStreams {
		return false
	}
	open := 0
	for _, s := range c.streams {
		if !s.stream.reset && !s.state.Closed() {
			open++
		}
	}
	return open >= maxStreams || len(c.streams) >= 4*maxStreams
}

// refuseStream resets a stream that has not come into being.
func (c *downConn) refuseStream(id uint32, code h2.Code, fault h2.Fault) *h2.Error {
	c.fault(fault)
	c.closeUnopened(id)
	c.queue(h2.AppendRSTStream(c.room(), id, code))
	return c.countReset()
}

// shut notes that a stream has not come into being, and what may still come of it.
func (c *downConn) closeUnopened(id uint32) {
	c.remember(id, h2.ResetByUs)
	w := h2.NewReceiveWindow(streamWindow)
	c.meter.Expect(&w, &c.recv)
}
