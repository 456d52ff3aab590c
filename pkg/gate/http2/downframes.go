package http2

import "github.com/queuegate/queuegate/pkg/gate/wire/h2"

// receiveHeaders applies a field block. Blocks on closed streams are decoded too, because
// each block may change the HPACK table.
func (c *downConn) receiveHeaders(f *h2.Frame) *h2.Error {
	h := &c.eng.head
	if err := c.hpack().dec.Decode(f.Payload, h); err != nil {
		return err
	}
	if c.table.find(f.Stream) == nil {
		if state, err := c.peers.StateOf(f.Stream, c.table.history); err != nil {
			return err
		} else if state == h2.Idle {
			return c.openStream(h, f)
		}
	}
	s, err := c.admit(f)
	switch {
	case err != nil:
		return err
	case s == nil:
		return c.countLate(0)
	}
	c.meter.Useful(0)
	if err := s.receiveTrailers(h, f); err != nil {
		return c.reset(s, err)
	}
	return nil
}

// receiveStreamFrame applies RST_STREAM, PRIORITY and WINDOW_UPDATE of a stream.
func (c *downConn) receiveStreamFrame(f *h2.Frame) *h2.Error {
	s, err := c.admit(f)
	switch {
	case err != nil:
		return err
	case f.Err != nil && s != nil:
		return c.reset(s, f.Err)
	case f.Err != nil && f.Stream > c.peers.Last(): // an idle stream cannot be reset
		return &h2.Error{Code: f.Err.Code, Scope: h2.Connection, Fault: f.Err.Fault, Reason: f.Err.Reason}
	case s == nil && f.Type == h2.RSTStream:
		return c.meter.Reset(c.eng.loop.Now())
	case s == nil:
		return nil
	}
	switch f.Type {
	case h2.RSTStream:
		s.reset = true
		s.x.Wake()
		return c.meter.Reset(c.eng.loop.Now())
	case h2.WindowUpdate:
		if err := s.updateWindow(f.Increment); err != nil {
			return c.reset(s, err)
		}
	}
	return nil
}

// admit applies a frame to the state of its stream. It returns a nil stream if the frame
// must be ignored. An error ends the connection.
func (c *downConn) admit(f *h2.Frame) (*downStream, *h2.Error) {
	s, accepted, err := c.table.receive(&c.peers, f)
	switch {
	case accepted:
		return s, nil
	case err == nil || err.Scope == h2.Connection:
		return nil, err
	case s != nil && !s.state.Closed():
		return nil, c.reset(s, err)
	}
	c.countFault(err.Fault)
	c.queue(h2.AppendRSTStream(c.outBuffer(), f.Stream, err.Code))
	return nil, c.countReset()
}

// receiveDataFrame applies one piece of a DATA frame.
func (c *downConn) receiveDataFrame(f *h2.Frame) *h2.Error {
	if f.First {
		if err := c.recv.Receive(f.Length, h2.Connection); err != nil {
			return err
		}
		c.widen()
	}
	s, err := c.admit(f)
	if err != nil {
		return err
	}
	if s == nil {
		c.discardData(f)
		if !f.First || f.CarriesNothing() {
			// Each DATA frame must count only once. The first piece counts for the whole
			// frame, and conn.handle has already counted a frame without content.
			return nil
		}
		return c.countLate(int(f.Length))
	}
	if !f.CarriesNothing() {
		c.meter.Useful(len(f.Payload))
	}
	if err := s.receiveData(f); err != nil {
		return c.reset(s, err)
	}
	return nil
}

// widen enlarges the receive window of the connection when the client begins to send
// request bodies.
func (c *downConn) widen() {
	if c.recv.Size() >= connWindow || c.eng.pressure() >= pressureHigh {
		return
	}
	if increment := c.recv.Resize(connWindow); increment > 0 {
		c.queue(h2.AppendWindowUpdate(c.outBuffer(), 0, increment))
	}
}

// reset ends a stream because the client violated the protocol.
func (c *downConn) reset(s *downStream, err *h2.Error) *h2.Error {
	if err.Scope == h2.Connection {
		return err
	}
	c.countFault(err.Fault)
	if err.Fault == h2.FaultMalformed {
		s.malformed = true
	}
	s.sendReset(err.Code)
	s.x.Wake()
	return c.countReset()
}

// countReset counts a stream reset that the client has caused.
func (c *downConn) countReset() *h2.Error {
	if err := c.meter.Reset(c.eng.loop.Now()); err != nil {
		return err
	}
	return c.meter.Reply()
}

// atMaxStreams reports whether the client has maxStreams streams open. Streams that have
// been reset do not count, unless 4*maxStreams streams are in the table.
func (c *downConn) atMaxStreams() bool {
	if len(c.table.open) < maxStreams {
		return false
	}
	num := 0
	for _, s := range c.table.open {
		if !s.reset && !s.state.Closed() {
			num++
		}
	}
	return num >= maxStreams || len(c.table.open) >= 4*maxStreams
}

// refuseStream resets a stream that the gate has not opened.
func (c *downConn) refuseStream(id uint32, code h2.Code, fault h2.Fault) *h2.Error {
	c.countFault(fault)
	c.closeUnopened(id)
	c.queue(h2.AppendRSTStream(c.outBuffer(), id, code))
	return c.countReset()
}

// closeUnopened is called for a stream of the client that the gate does not open. It
// records that the gate has reset the stream. So DATA that the client may already have
// sent on the stream is not a violation.
func (c *downConn) closeUnopened(id uint32) {
	c.table.remember(id, h2.ResetByUs)
	w := h2.NewReceiveWindow(streamWindow)
	c.meter.Expect(&w)
}
