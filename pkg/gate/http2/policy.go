package http2

import "time"

// This file has the numeric limits of the package and, as pure functions, the decisions
// based on them.
//
// The first table has the limits against abuse by a client or by the container. h2.Meter
// has further limits, for resets, empty frames and replies.
//
//	limit                   value      counted in                if exceeded
//	maxStreams              250        downConn.table            RST_STREAM REFUSED_STREAM
//	maxStreamsUpstream      1000       upConn.table              another connection
//	unprovenStreams         100        upConn.table              another connection
//	maxUnread               140 KiB    conn.pending              the gate stops reading from the client
//	maxConnHeads            512 KiB    downConn.headBytes        503, if more than half of the memory for heads is used
//	maxQueuedHeads          64         upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxQueuedHeadBytes      64 KiB     upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxUpstreamHead         1 MiB      h2.Reader, h2.Decoder     RST_STREAM ENHANCE_YOUR_CALM
//	maxResets               100        upConn.resets             no new streams on the connection
//	maxConnects             8          Dial.Opened               502
//	maxExclusive            256        upConn.sharing, Dialer    connections are shared
//	maxLingerBytes          1 MiB      lingering.discarded       the connection is closed
//
// The second table has the receive windows (RFC 9113 section 5.2), in bytes:
//
//	window      sender     size
//	connection  client     65,535 at first; 256 KiB after the client has sent DATA
//	connection  container  1 MiB
//	stream      client     64 KiB
//	stream      container  initialStreamWindow at first; up to 64 KiB after changes by
//	                       nextStreamWindow and readAheadWindow
const (
	maxStreams         = 250
	maxStreamsUpstream = 1000
	// unprovenStreams is the maximum number of streams on a connection before the
	// container's SETTINGS arrive. RFC 9113 section 6.5.2 advises containers to allow at
	// least 100 streams.
	unprovenStreams    = 100
	unprovenHeaderList = 4 << 10
	maxQueuedHeads     = 64
	maxQueuedHeadBytes = 64 << 10
	maxUpstreamHead    = 1 << 20
	// maxResets limits the weighted number of stream resets on a connection to the
	// container. A received RST_STREAM with ENHANCE_YOUR_CALM has the weight calmWeight,
	// any other reset by either side has the weight 1.
	maxResets = 100
	// calmWeight lets 20 resets with ENHANCE_YOUR_CALM reach maxResets. Node.js ends a
	// session, with all its streams, after 100 of them; the gate must stop earlier.
	calmWeight = 5
	// maxConnects is the number of connections that may be opened for one request. If the
	// container accepts the request on none of them, the reply is 502.
	maxConnects     = 8
	maxExclusive    = 256 // exclusive connections per loop
	busyConnStreams = 120 // streams at which a connection counts as busy; half of what most containers allow
	maxIdleConns    = 4   // idle connections per loop after a burst

	uncountedHead = 2 << 10 // bytes of each head that are not charged to the memory for heads
	// maxConnHeads limits the bytes that the heads of one client connection may charge. It
	// applies only if more than half of the memory for heads is used.
	maxConnHeads = 512 << 10
	maxReplay    = 2 << 10 // bytes of the replay buffer of a request body

	streamWindow    = 64 << 10
	firstWindow     = 16 << 10 // first window of a response; it may grow after half of it has been consumed
	pressuredWindow = 2 << 10  // maximum window of a response at medium or higher memory pressure
	minSharedWindow = 256      // smallest window when many streams share maxReadAhead
	minWindow       = 128      // smallest window; see initialStreamWindow and nextStreamWindow
	// maxReadAhead limits the sum of the initial windows of all streams of a loop. These
	// are the bytes that the container may send before the clients read any of them.
	maxReadAhead           = 512 << 10
	connWindow             = 256 << 10
	upConnWindow           = 1 << 20
	maxUnwritten           = 70 << 10  // bytes of frames buffered for a peer that does not read
	maxUnwrittenOverBudget = 16 << 10  // replaces maxUnwritten while the memory for bodies is exhausted
	maxBatch               = 128 << 10 // bytes of frames buffered for a peer whose socket is writable
	maxUnread              = 2 * maxUnwritten
	// quotaBytes is the number of bytes of DATA that a blocked stream may write when its
	// turn comes. Then the next blocked stream continues.
	quotaBytes = 32 << 10

	readBytes     = 64 << 10
	headReadBytes = 4 << 10 // bytes per read for a client that sends no bodies: a few hundred heads
	// fewHeadReadBytes replaces headReadBytes after the loop has handled more than
	// framesForFewBytes frames in an iteration.
	fewHeadReadBytes  = 1 << 10
	framesForFewBytes = 256
	readsPerEvent     = 4
	framesPerEvent    = 64 // number of frames after which a connection stops reading until its next step
	budgetChunk       = 256 << 10
	// manyBufferBytes is a threshold. If the stream buffers of a loop have at least this
	// total capacity, Engine.fit replaces buffers that are less than half full by smaller
	// ones.
	manyBufferBytes = 256 << 10
	maxFreeBytes    = 512 << 10 // maximum bytes of the free list for one size of buffers
	narrowBytes     = 16 << 10  // size of an output buffer for frames with little payload
	// wideBytes is the size of a wide output buffer. It has space for maxUnwritten and for
	// one DATA frame of 16 KiB, which may be added just before maxUnwritten is reached.
	wideBytes = 88 << 10
	// maxWideBuffers is a threshold. A connection replaces its narrow buffer by a wide one
	// when the narrow one is full. If this many wide buffers are in use on the loop, the
	// connection first writes the buffered bytes to the socket, without waiting for the end
	// of the iteration. It takes a wide buffer only if this frees too little space.
	maxWideBuffers = 8
	maxLingerBytes = 1 << 20
)

// Timeouts and intervals, in nanoseconds as on the loop's clock.
const (
	lowWindowTime  = int64(time.Second) // time for which minWindow applies after a client has read nothing
	prefaceTimeout = int64(10 * time.Second)
	provingTimeout = int64(2 * time.Second) // maximum wait for the container's SETTINGS
	goAwayTimeout  = int64(time.Second)
	goAwayGrace    = int64(200 * time.Millisecond) // time for streams that the client opened before it read GOAWAY
	replyTimeout   = int64(5 * time.Second)        // maximum time until the client has read a local reply
	// livenessTimeout is the time without a byte from the container after which the gate
	// sends a PING. It is also the maximum time until the PING is acknowledged.
	livenessTimeout = int64(15 * time.Second)
	trimAfter       = int64(10 * time.Second)      // time after which idle connections beyond maxIdleConns are closed
	creditTimeout   = int64(20 * time.Millisecond) // time after which a connection with an exhausted window is avoided
	exclusiveWait   = int64(50 * time.Millisecond) // maximum wait for a connection that is being opened
	trailersWait    = int64(time.Second)
	trailersRecent  = int64(10 * time.Second)
	// lingerTimeout is the time for which a lingering close continues after the client has
	// acknowledged all bytes that the gate sent.
	lingerTimeout = int64(time.Second)
	// lingerReadTimeout is the time after which a lingering close ends if the client
	// acknowledges no further byte.
	lingerReadTimeout   = int64(5 * time.Second)
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

// pressureOf returns the level of memory pressure. It compares the bytes in use (used)
// with the size of the gate's budget for bodies (limit). The parameter overBudget is the
// result of Engine.overBudget.
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
// container: the number of bytes that the container may send on a stream before the
// client has read any of them. The parameter current is the value announced before, and
// streams is the number of open streams on the loop.
//
// If the flag limited is set, requests may have to wait for a slot. Then the window is
// sharedWindow up to medium pressure, and minWindow above. Large windows let the gate
// read whole responses and release their slots early.
//
// If limited is not set, the window is sharedWindow only if there is no pressure. At low
// pressure it may shrink but not grow. At medium or higher pressure it is minWindow. It
// is also minWindow if lowWindow is set, which means that some client reads nothing.
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

// sharedWindow divides maxReadAhead among the streams. It halves firstWindow until the
// windows of all streams together fit into maxReadAhead, or until minSharedWindow is
// reached.
//
// The window grows only if windows of twice the new size would also fit into maxReadAhead.
// Otherwise it keeps its current size. This avoids frequent changes, because each change
// costs a SETTINGS frame on every connection. The rule does not apply if the current size
// is below minSharedWindow.
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

// nextStreamWindow returns the new size of the receive window of a response. The parameter
// capacity is the number of bytes that the downstream side would accept now.
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

// refill applies the effects of time to the credits, for the whole intervals of 1 ms
// since the last call. Intervals without a response add credits. Credits above 64 decay.
// The comment of the type pacing has the numbers.
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

// responded is called when the response to a paced stream begins. It adds one credit, so
// that the next stream can start. The flag waiting tells whether other streams wait to
// start. Only then, every 8th response adds a second credit, so that the window grows.
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

// The pacer may spend unitsPerIteration on streams in one iteration of the loop. A unit
// is about 6 µs of work. Each stream costs one unit. The other constants are costs in
// addition to that unit.
const (
	unitsPerIteration = 64
	dialUnits         = 7 // units for each connection that the stream opens
	resetUnits        = 1 // units for a stream that has been reset: it is ended, not started
)

// dialPause is the pause of a burst after an iteration that opened connections. Without
// the pause, the loop and the container use up their scheduler time slices, which delays
// the requests of other clients.
const dialPause = int64(time.Millisecond)
