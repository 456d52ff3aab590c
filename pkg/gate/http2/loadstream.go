package http2

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
	"github.com/queuegate/queuegate/pkg/gate/wire/orca"
)

// loadStreamPath is the path of the method StreamCoreMetrics of
// xds.service.orca.v3.OpenRcaService. The gate serves this method itself: a stream of
// load reports at the interval in the client's request. The stream does not count as a
// request. It is not queued, needs no slot, and ends when a drain begins.
const loadStreamPath = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"

const (
	minReportInterval  = time.Second
	maxReportInterval  = 24 * time.Hour
	loadRequestTimeout = int64(2 * time.Second) // maximum time until the request is complete
	maxLoadRequest     = 4 << 10                // maximum length of the request in bytes
	maxLoadStreams     = 64                     // maximum number of streams of load reports per loop
)

// loadStream is the state of a stream in phaseLoadReports.
type loadStream struct {
	interval time.Duration // time between two reports
	next     int64         // time at which the next report is due
	unsent   []byte        // unsent part of a report
}

// readLoadRequest parses b, which must be one gRPC message with an OrcaLoadReportRequest.
// It returns the interval between two reports that the client requests.
func readLoadRequest(b []byte) (interval time.Duration, ok bool) {
	const prefix = 5
	if len(b) < prefix || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:])) != len(b)-prefix {
		return 0, false // incomplete, compressed (b[0] is 1), or followed by more bytes
	}
	interval, err := orca.ParseRequest(b[prefix:])
	return min(max(interval, minReportInterval), maxReportInterval), err == nil
}

// callsForReports reports whether the request is a call of StreamCoreMetrics.
func (s *downStream) callsForReports() bool {
	return string(s.req.Target) == loadStreamPath && string(s.req.Method) == "POST" && s.req.GRPC()
}

// awaitLoadRequest waits until the request of the call is complete, and then begins the
// reports. Calls with an incomplete request do not count towards maxLoadStreams.
func (s *downStream) awaitLoadRequest() bool {
	e := s.eng()
	switch {
	case s.Disconnected() || s.malformed:
		return s.finish()
	case e.shutsDown():
		return s.endReports(grpcUnavailable, "shutting down")
	case len(e.loadStreams) >= maxLoadStreams:
		return s.endReports(grpcResourceExhausted, "too many streams of load reports")
	case s.buffered() > maxLoadRequest:
		return s.endReports(grpcInternal, "not an OrcaLoadReportRequest")
	case s.endReceived():
		return s.beginReports()
	case e.loop.Now() >= s.deadline:
		return s.endReports(grpcDeadlineExceeded, "no request")
	}
	s.handle.SetDeadline(s.deadline)
	return false
}

// beginReports reads the request and enters phaseLoadReports.
func (s *downStream) beginReports() bool {
	e := s.eng()
	var request []byte
	if s.buf != nil {
		request = s.buf.b[s.bufStart:]
	}
	interval, ok := readLoadRequest(request)
	if len(request) > 0 {
		s.consume(len(request))
	}
	if !ok {
		return s.endReports(grpcInternal, "not an OrcaLoadReportRequest")
	}
	if e.loadStreams == nil {
		e.loadStreams = map[*downStream]*loadStream{}
	}
	e.loadStreams[s] = &loadStream{interval: interval, next: e.loop.Now()}
	s.phase = phaseLoadReports
	s.sendGRPCHead(false, nil)
	return true
}

// sendReports sends the reports that are due.
func (s *downStream) sendReports() bool {
	e := s.eng()
	l := e.loadStreams[s]
	now := e.loop.Now()
	switch {
	case s.Disconnected() || s.malformed:
		return s.finish()
	case e.shutsDown():
		return s.endReports(grpcUnavailable, "shutting down")
	case now >= l.next && len(l.unsent) > 0:
		// The next report is due, but the previous one is not yet sent completely. The
		// client does not read.
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

// shutsDown reports whether streams of load reports must end.
func (e *Engine) shutsDown() bool { return e.draining || e.gate.Drain.Active() }

// endReports ends the call with a gRPC status.
func (s *downStream) endReports(status int, message string) bool {
	s.announceDrain()
	s.sendGRPCHead(true, func(b []byte, enc *h2.Encoder) []byte {
		b = enc.AppendNamed(b, h2.NameGRPCStatus, strconv.AppendInt(nil, int64(status), 10))
		return enc.AppendNamed(b, h2.NameGRPCMessage, []byte(message))
	})
	return s.finish()
}

// sendGRPCHead sends the head of a gRPC response, or its trailers if the head has already
// been sent. If the function further is not nil, it appends more fields. If the flag end
// is set, the frame has END_STREAM.
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

// endLoadStreams ends all streams of load reports when a drain begins. Otherwise they
// would delay the drain, because clients keep a connection open after GOAWAY while it has
// a stream.
func (e *Engine) endLoadStreams() {
	for s := range e.loadStreams {
		s.handle.Wake()
	}
}
