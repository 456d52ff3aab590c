package http2

import "time"

// This file has the numeric limits of the package and, as pure functions, the decisions
// based on them.
//
// Limits against abuse by either peer. h2.Meter has further limits, for resets, empty
// frames and replies.
//
//	limit                   value      counted in                if exceeded
//	maxStreams              250        downConn.table            RST_STREAM REFUSED_STREAM
//	maxStreamsUpstream      1000       upConn.table              another connection
//	unprovenStreams         100        upConn.table              another connection
//	maxUnread               140 KiB    conn.pending              the gate stops reading from the client
//	maxConnHeads            512 KiB    downConn.headBytes        503, while memory for heads is more than half used
//	maxQueuedHeads          64         upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxQueuedHeadBytes      64 KiB     upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxUpstreamHead         1 MiB      h2.Reader, h2.Decoder     RST_STREAM ENHANCE_YOUR_CALM
//	maxResets               100        upConn.resets             no new streams on the connection
//	maxConnects             8          Dial.Opened               502
//	maxExclusive            256        upConn.sharing, Dialer    connections are shared
//	maxLingerBytes          1 MiB      lingering.discarded       the connection is closed
//
// Receive windows (RFC 9113 section 5.2), in bytes:
//
//	connection, from a client      65,535; 256 KiB once it has sent DATA
//	connection, from the container 1 MiB
//	stream, from a client          64 KiB
//	stream, from the container     initialStreamWindow, then nextStreamWindow and
//	                               readAheadWindow, up to 64 KiB
const (
	maxStreams         = 250
	maxStreamsUpstream = 1000
	unprovenStreams    = 100 // limit before SETTINGS arrive; RFC 9113 section 6.5.2 advises containers to allow at least 100
	unprovenHeaderList = 4 << 10
	maxQueuedHeads     = 64
	maxQueuedHeadBytes = 64 << 10
	maxUpstreamHead    = 1 << 20
	maxResets          = 100 // sum of the weights of resets: calmWeight for a received ENHANCE_YOUR_CALM, otherwise 1
	calmWeight         = 5   // Node.js ends a session after 100 resets with ENHANCE_YOUR_CALM
	maxConnects        = 8   // connections opened for one request, if the container accepts it on none of them
	maxExclusive       = 256 // exclusive connections per loop
	busyConnStreams    = 120 // streams at which a connection counts as busy; half of what most containers allow
	maxIdleConns       = 4   // idle connections per loop after a burst

	uncountedHead = 2 << 10   // bytes of each head that are not charged to the memory for heads
	maxConnHeads  = 512 << 10 // bytes of heads of one connection, while the memory for heads is more than half used
	maxReplay     = 2 << 10   // bytes of the replay buffer of a request body

	streamWindow           = 64 << 10
	firstWindow            = 16 << 10  // first window of a response; it may grow after half of it has been consumed
	pressuredWindow        = 2 << 10   // maximum window of a response at medium or higher memory pressure
	minSharedWindow        = 256       // smallest window when many streams share maxReadAhead
	minWindow              = 128       // smallest window; see initialStreamWindow and nextStreamWindow
	maxReadAhead           = 512 << 10 // sum of the first windows of all streams of a loop
	connWindow             = 256 << 10
	upConnWindow           = 1 << 20
	maxUnwritten           = 70 << 10  // bytes of frames buffered for a peer that does not read
	maxUnwrittenOverBudget = 16 << 10  // replaces maxUnwritten while the memory for bodies is exhausted
	maxBatch               = 128 << 10 // bytes of frames buffered for a peer whose socket is writable
	maxUnread              = 2 * maxUnwritten
	quotaBytes             = 32 << 10 // bytes of DATA that one stream may write before the next blocked stream continues

	readBytes         = 64 << 10
	headReadBytes     = 4 << 10 // bytes per read for a client that sends no bodies: a few hundred heads
	fewHeadReadBytes  = 1 << 10 // bytes per read for such a client after framesForFewBytes frames in an iteration
	framesForFewBytes = 256
	readsPerEvent     = 4
	framesPerEvent    = 64 // number of frames after which reading stops until the next event
	budgetChunk       = 256 << 10
	manyBufferBytes   = 256 << 10 // bytes of stream buffers above which fit shrinks buffers
	maxFreeBytes      = 512 << 10 // bytes of free buffers of one size
	narrowBytes       = 16 << 10  // size of an output buffer for frames with little payload
	wideBytes         = 88 << 10  // size of an output buffer for maxUnwritten and one more frame
	maxWideBuffers    = 8         // number of wide buffers above which output is written before the end of the iteration
	maxLingerBytes    = 1 << 20
)

// Timeouts and intervals, in nanoseconds as on the loop's clock.
const (
	lowWindowTime       = int64(time.Second) // time for which minWindow applies after a client has read nothing
	prefaceTimeout      = int64(10 * time.Second)
	provingTimeout      = int64(2 * time.Second) // maximum wait for the container's SETTINGS
	goAwayTimeout       = int64(time.Second)
	goAwayGrace         = int64(200 * time.Millisecond) // time for streams that the client opened before it read GOAWAY
	replyTimeout        = int64(5 * time.Second)        // maximum time until the client has read a local reply
	livenessTimeout     = int64(15 * time.Second)       // time without a byte after which a PING is sent, and maximum time until its acknowledgement
	trimAfter           = int64(10 * time.Second)       // time after which idle connections beyond maxIdleConns are closed
	creditTimeout       = int64(20 * time.Millisecond)  // time after which a connection with an exhausted window is avoided
	exclusiveWait       = int64(50 * time.Millisecond)  // maximum wait for a connection that is being opened
	trailersWait        = int64(time.Second)
	trailersRecent      = int64(10 * time.Second)
	lingerTimeout       = int64(time.Second)      // maximum time after the client has acknowledged all bytes
	lingerReadTimeout   = int64(5 * time.Second)  // maximum time between two reads of the client
	lingerTotal         = int64(10 * time.Second) // maximum time of a lingering close
	lingerCheckInterval = int64(200 * time.Millisecond)
)

// pressure is the level of memory pressure. It is derived from the used part of the
// gate's budget for bodies.
type pressure uint8

const (
	pressureNone   pressure = iota // less than 1/32 of the budget is used
	pressureLow                    // 1/32 of the budget or more is used; see initialStreamWindow
	pressureMedium                 // 1/16 of the budget or more is used: smaller windows for responses
	pressureHigh                   // more than 1/2 of the budget is used: no replay buffers, no large free buffers
	pressureFull                   // the loop buffers more than it was able to reserve
)

// pressureOf returns the level if used bytes of limit are in use. overBudget is the result
// of Engine.overBudget.
func pressureOf(used, limit int64, overBudget bool) pressure {
	switch {
	case overBudget:
		return pressureFull
	case used > limit/2:
		return pressureHigh
	case used >= limit/16:
		return pressureMedium
	case used >= limit/32:
		return pressureLow
	}
	return pressureNone
}

// initialStreamWindow returns the SETTINGS_INITIAL_WINDOW_SIZE to announce to the
// container. It is the number of bytes that the container may send on a stream before the
// client has read any of them. current is the value announced before. streams is the
// number of open streams on the loop.
//
// With a concurrency limit (limited), large windows let the gate read whole responses and
// release their slots early. Without a limit, the window is minWindow at medium or higher
// pressure, or if some client reads nothing (lowWindow). At low pressure it does not
// grow.
func initialStreamWindow(current uint32, streams int, limited, lowWindow bool, p pressure) uint32 {
	shared := sharedWindow(current, streams)
	switch {
	case limited && p < pressureHigh:
		return shared
	case limited, p >= pressureMedium, lowWindow:
		return minWindow
	case p == pressureNone:
		return shared
	}
	return min(current, shared)
}

// sharedWindow divides maxReadAhead among the streams. It returns the largest of
// firstWindow, firstWindow/2, … minSharedWindow that fits. The window grows only if twice
// its new size would fit too, because each change costs a SETTINGS frame on every
// connection.
func sharedWindow(current uint32, streams int) uint32 {
	size := uint32(firstWindow)
	for size > minSharedWindow && int(size)*streams > maxReadAhead {
		size /= 2
	}
	if size > current && current >= minSharedWindow && 2*int(size)*streams > maxReadAhead {
		return current
	}
	return size
}

// windowChange reports whether the receive window of a response may grow or must shrink. It
// may grow once the client has consumed half of the window. It must shrink at medium or
// higher memory pressure.
func windowChange(size uint32, consumed int64, p pressure) (grow, shrink bool) {
	return size < streamWindow && consumed >= int64(size/2), p >= pressureMedium
}

// nextStreamWindow returns the new size of the receive window of a response. capacity is
// the number of bytes that the downstream side would accept now.
func nextStreamWindow(size uint32, capacity int, grow, shrink bool) uint32 {
	want := uint32(min(streamWindow, capacity))
	if shrink {
		want = min(want, pressuredWindow)
	}
	want = max(want, minWindow)
	if want < size && shrink || want > size && grow {
		return want
	}
	return size
}

// readAheadWindow returns the size of the receive window of a response while the client
// reads nothing. It doubles the window when it is half full, up to streamWindow.
func readAheadWindow(size, buffered uint32) uint32 {
	if size >= streamWindow || buffered < size/2 {
		return size
	}
	return min(2*max(size, buffered, minWindow), streamWindow)
}

// unwrittenLimit returns the maximum number of bytes buffered for a peer.
func unwrittenLimit(overBudget, writable bool) int {
	switch {
	case overBudget:
		return maxUnwrittenOverBudget
	case writable:
		return maxBatch
	}
	return maxUnwritten
}

// pacing limits how fast a burst of new streams reaches the container. It is a
// self-clocked window, like TCP's congestion window (RFC 5681). A token bucket adds
// credits while the container does not respond:
//
//	event                                 credits
//	a stream of the burst starts          −1
//	its response begins                   +1; +2 for every 8th response
//	1 ms passes                           credits above 64 decay by 1/8
//	1 ms passes without a response        +8, up to 64
//
// A burst starts with 64 credits. The first stream of a connection in an iteration of the
// loop needs none, so that clients with few streams are not delayed.
type pacing struct {
	credits    int   // number of streams that may start
	refilledAt int64 // end of the last whole interval
	responses  uint8 // number of responses since the last extra credit
	noResponse bool  // no response has begun since refilledAt
}

const (
	baseCredits        = 64
	responsesPerCredit = 8
	refillInterval     = int64(time.Millisecond)
	refillCredits      = 8
	decayDivisor       = 8
)

// refill adds and decays credits for the intervals since the last call.
func (p *pacing) refill(now int64) {
	n := (now - p.refilledAt) / refillInterval
	if n <= 0 {
		return
	}
	if p.credits < baseCredits && (p.noResponse || n > 1) {
		p.credits = int(min(int64(p.credits)+n*refillCredits, baseCredits))
	}
	for range min(n, baseCredits) {
		p.credits -= max(0, p.credits-baseCredits+decayDivisor-1) / decayDivisor
	}
	p.refilledAt, p.noResponse = p.refilledAt+n*refillInterval, true
}

// responded adds the credits for the beginning of a response to a paced stream. waiting
// tells whether other streams wait to start. If none waits, the window does not grow.
func (p *pacing) responded(waiting bool) {
	p.noResponse = false
	p.credits++
	if !waiting {
		return
	}
	if p.responses++; p.responses == responsesPerCredit {
		p.responses = 0
		p.credits++
	}
}

// nextAt returns the time at which the next stream may start; 0 = now.
func (p *pacing) nextAt() int64 {
	if p.credits > 0 {
		return 0
	}
	return p.refilledAt + refillInterval
}

// Cost of the pacer's work in one iteration of the loop, in units of about 6 µs. Each
// stream costs one unit.
const (
	unitsPerIteration = 64
	dialUnits         = 7 // additional units for a stream that opens a connection
	resetUnits        = 1 // additional units for a stream that only has to be ended
)

// dialPause is the pause of a burst after an iteration that opened connections. Without
// the pause, the loop and the container use up their scheduler time slices, which delays
// the requests of other clients.
const dialPause = int64(time.Millisecond)
