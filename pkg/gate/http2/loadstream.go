package http2

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// The gate serves the method StreamCoreMetrics of xds.service.orca.v3.OpenRcaService: a
// stream of load reports at the interval in the client's request. It does not count as a
// request: it is neither counted nor queued, needs no slot, and ends when a drain begins.
const loadStreamPath = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"

const (
	minReportInterval  = time.Second
	maxReportInterval  = 24 * time.Hour
	loadRequestTimeout = int64(10 * time.Second) // until the client has sent its message
	maxLoadRequest     = 4 << 10                 // bytes of that message
	maxLoadStreams     = 64                      // per loop
)

// loadStream is the state of a stream in phaseLoadReports. It is the Sink of the
// request's body.
type loadStream struct {
	request  []byte
	ended    bool          // the request is complete
	tooLong  bool          // it exceeds maxLoadRequest
	began    bool          // the response head has been sent
	interval time.Duration // between two reports
	next     int64         // when the next report is due; before began, when the request must be complete
	unsent   []byte        // unsent part of a report
}

// Write implements exchange.Sink.
func (l *loadStream) Write(p []byte) int {
	if len(l.request)+len(p) > maxLoadRequest {
		l.tooLong = true
		return len(p)
	}
	l.request = append(l.request, p...)
	return len(p)
}

// Capacity implements exchange.Sink.
func (l *loadStream) Capacity() int { return maxLoadRequest }

// Finish implements exchange.Sink.
func (l *loadStream) Finish([]byte) { l.ended = true }

// Flush implements exchange.Sink.
func (l *loadStream) Flush() (moved, empty bool) { return false, true }

// Broken implements exchange.Sink.
func (l *loadStream) Broken() bool { return false }

// read reads the request: one message of gRPC with an OrcaLoadReportRequest.
func (l *loadStream) read() (ok bool) {
	const prefix = 5
	b := l.request
	if l.tooLong || len(b) < prefix || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:])) != len(b)-prefix {
		return false // b[0] = 1 is a compressed message
	}
	interval, err := orca.ParseRequest(b[prefix:])
	l.interval = min(max(interval, minReportInterval), maxReportInterval)
	return err == nil
}

// callsForReports reports whether the request is a call of StreamCoreMetrics.
func (s *downStream) callsForReports() bool {
	return string(s.req.Target) == loadStreamPath && string(s.req.Method) == "POST" && s.req.GRPC()
}

// beginReports enters phaseLoadReports.
func (s *downStream) beginReports() bool {
	e := s.eng()
	if len(e.loadStreams) >= maxLoadStreams {
		return s.endReports(grpcResourceExhausted, "too many streams of load reports")
	}
	if e.loadStreams == nil {
		e.loadStreams = map[*downStream]*loadStream{}
	}
	s.dropReplay()
	e.loadStreams[s] = &loadStream{next: e.loop.Now() + loadRequestTimeout}
	s.phase = phaseLoadReports
	return true
}

// sendReports sends the reports that are due.
func (s *downStream) sendReports() bool {
	e := s.eng()
	l := e.loadStreams[s]
	now := e.loop.Now()
	if s.Disconnected() || s.malformed {
		return s.finish()
	}
	if !l.began {
		s.Pump(l)
		switch {
		case l.ended && !l.read():
			return s.endReports(grpcInternal, "not an OrcaLoadReportRequest")
		case !l.ended && now >= l.next:
			return s.endReports(grpcDeadlineExceeded, "no request")
		case !l.ended:
			s.handle.SetDeadline(l.next)
			return false
		}
		l.began, l.next = true, now
		s.sendGRPCHead(false, nil)
	}
	switch {
	case e.draining || e.gate.Drain.Active():
		return s.endReports(grpcUnavailable, "shutting down")
	case now >= l.next && len(l.unsent) > 0: // for a whole interval
		s.sendReset(h2.Cancel)
		return s.finish()
	case now >= l.next:
		report := e.gate.Load(s.x.Now())
		l.unsent = report.AppendProto(append(l.unsent[:0], 0, 0, 0, 0, 0))
		binary.BigEndian.PutUint32(l.unsent[1:], uint32(len(l.unsent)-5))
		l.next = now + int64(l.interval)
	}
	l.unsent = l.unsent[s.Write(l.unsent):]
	s.handle.SetDeadline(l.next)
	return false
}

// endReports ends the call with a status.
func (s *downStream) endReports(status int, message string) bool {
	s.announceDrain()
	s.sendGRPCHead(true, func(b []byte, enc *h2.Encoder) []byte {
		b = enc.AppendNamed(b, h2.NameGRPCStatus, strconv.AppendInt(nil, int64(status), 10))
		return enc.AppendNamed(b, h2.NameGRPCMessage, []byte(message))
	})
	return s.finish()
}

// sendGRPCHead sends the head of a gRPC response, unless it has been sent, with further
// fields. end = with END_STREAM.
func (s *downStream) sendGRPCHead(end bool, further func([]byte, *h2.Encoder) []byte) {
	l := s.c
	b, enc := l.outBuffer(), &l.hpack().enc
	start := len(b)
	b = h2.BeginHeaders(b)
	if s.sendState != sendOpen {
		b = enc.AppendNamed(enc.AppendStatus(b, 200), h2.NameContentType, []byte("application/grpc"))
	}
	if further != nil {
		b = further(b, enc)
	}
	l.queue(h2.EndHeaders(b, start, s.id, end, int(l.settings.MaxFrame)))
	s.responseBegan(end)
}

// endLoadStreams ends all streams of load reports. Otherwise clients would keep their
// connections open for them after GOAWAY.
func (e *Engine) endLoadStreams() {
	for s := range e.loadStreams {
		s.handle.Wake()
	}
}

var _ exchange.Sink = (*loadStream)(nil)
