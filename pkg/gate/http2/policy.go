package http2

import "time"

// This file has the numeric limits of the package and, as pure functions, the decisions
// based on them. The engine calls the functions and acts on the results.
//
// Limits against abuse. Exceeding one costs the client the stream or the
// connection; h2.Meter limits resets, empty frames and replies.
//
//	limit                   value      counted in                beyond it
//	maxStreams              250        downConn.streams          RST_STREAM REFUSED_STREAM
//	maxStreamsUpstream      1000       upConn.streams            another connection
//	unprovenStreams         100        upConn.streams            another connection
//	maxUnread               140 KiB    conn.pending              the gate stops reading from the client
//	maxConnHeads            512 KiB    downConn.headBytes        503, while memory for heads is more than half used
//	maxQueuedHeads          64         upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxQueuedHeadBytes      64 KiB     upStream.heads            RST_STREAM ENHANCE_YOUR_CALM
//	maxUpstreamHead         1 MiB      h2.Reader, h2.Decoder     RST_STREAM ENHANCE_YOUR_CALM
//	maxResets               100        upConn.resets             no new streams on the connection
//	maxConnects             8          Dial.Opened               502
//	maxExclusive            256        upConn.sharing            connections are shared
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
	unprovenStreams    = 100 // before SETTINGS; RFC 9113 section 6.5.2 advises containers to allow at least 100
	unprovenHeaderList = 4 << 10
	maxQueuedHeads     = 64
	maxQueuedHeadBytes = 64 << 10
	maxUpstreamHead    = 1 << 20
	maxResets          = 100 // weighted by resetWeight
	calmWeight         = 5   // of a reset with ENHANCE_YOUR_CALM: Node.js ends a session after 100
	maxConnects        = 8   // connections opened for one request while the container accepts no request on a new one
	maxExclusive       = 256 // exclusive connections, per loop
	busyConnStreams    = 120 // streams, half of what most containers allow on a connection
	maxIdleConns       = 4   // per loop, after a burst

	uncountedHead = 2 << 10   // bytes of each head that are not charged to the memory for heads
	maxConnHeads  = 512 << 10 // bytes of heads of one connection, while that memory is more than half used
	maxReplay     = 2 << 10   // bytes of the replay buffer of a request body

	streamWindow           = 64 << 10
	firstWindow            = 16 << 10  // from the container, until the client has read half of it
	pressuredWindow        = 2 << 10   // at high memory pressure
	minSharedWindow        = 256       // with many streams
	minWindow              = 128       // while some client reads nothing
	maxReadAhead           = 512 << 10 // sum of the first windows of all streams of a loop
	connWindow             = 256 << 10
	upConnWindow           = 1 << 20
	maxUnwritten           = 70 << 10  // bytes of frames buffered for a peer that does not read
	maxUnwrittenOverBudget = 16 << 10  // while the memory for bodies is exhausted
	maxBatch               = 128 << 10 // bytes of frames buffered in one iteration for a peer that reads
	maxUnread              = 2 * maxUnwritten
	quotaBytes             = 32 << 10 // DATA of one stream before the next blocked stream continues

	readBytes         = 64 << 10
	headReadBytes     = 4 << 10 // for clients that send no bodies: a few hundred heads
	fewHeadReadBytes  = 1 << 10 // for the same clients, after framesForFewBytes frames in an iteration
	framesForFewBytes = 256
	readsPerEvent     = 4
	framesPerEvent    = 64 // an event stops reading after that many frames
	budgetChunk       = 256 << 10
	manyBufferBytes   = 256 << 10 // above it, buffers are trimmed to their content
	maxFreeBytes      = 512 << 10 // free buffers of one size
	narrowBytes       = 16 << 10  // output buffer for frames with little payload
	wideBytes         = 88 << 10  // output buffer: maxUnwritten and one more frame
	maxWideBuffers    = 8         // above it, output is written before the end of the iteration
	maxLingerBytes    = 1 << 20
)

// Timeouts and intervals, in nanoseconds as on the loop's clock.
const (
	lowWindowTime       = int64(time.Second) // how long minWindow applies after a client read nothing
	prefaceTimeout      = int64(10 * time.Second)
	provingTimeout      = int64(2 * time.Second) // until the container's SETTINGS
	goAwayTimeout       = int64(time.Second)
	goAwayGrace         = int64(200 * time.Millisecond) // for streams opened before the client read GOAWAY
	replyTimeout        = int64(5 * time.Second)        // until the client has read a local reply
	livenessTimeout     = int64(15 * time.Second)       // of silence before a PING, and before its acknowledgement
	trimAfter           = int64(10 * time.Second)       // idle connections beyond maxIdleConns are closed
	creditTimeout       = int64(20 * time.Millisecond)  // an exhausted connection window is avoided after that
	trailersWait        = int64(time.Second)
	trailersRecent      = int64(10 * time.Second)
	lingerTimeout       = int64(time.Second)      // after the client has acknowledged everything
	lingerReadTimeout   = int64(5 * time.Second)  // between two reads of the client
	lingerTotal         = int64(10 * time.Second) // total
	lingerCheckInterval = int64(200 * time.Millisecond)
)

// pressure is the level of memory pressure, from the use of the gate's budget for
// bodies.
type pressure uint8

const (
	pressureNone   pressure = iota // less than 1/32 is used
	pressureLow                    // less than 1/16
	pressureMedium                 // from 1/16 on: smaller windows for responses
	pressureHigh                   // more than 1/2: no replay buffers, no large free buffers
	pressureFull                   // the loop buffers more than it could reserve
)

// pressureOf returns the pressure for used bytes of limit. overBudget reports that the
// loop buffers more than it could reserve.
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

// initialStreamWindow returns the SETTINGS_INITIAL_WINDOW_SIZE announced to the container:
// the bytes that it may send on a stream before the client has read anything. current is
// the connection's present value, streams the number of open streams on the loop.
//
// With a concurrency limit, the gate reads whole responses ahead if memory allows, because
// that releases their slots. Without one, lowWindow (some client reads nothing) and medium
// pressure reduce the window to minWindow, and low pressure never raises it.
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

// sharedWindow divides maxReadAhead among the streams: it returns the largest of
// firstWindow, firstWindow/2, … minSharedWindow that fits. It exceeds current only if
// twice the size would fit too, because each change costs a frame on each connection.
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

// windowChange tells whether the receive window of a response may grow or must shrink. It
// may grow once the client has consumed half of it, and must shrink under memory pressure.
func windowChange(size uint32, consumed int64, p pressure) (grow, shrink bool) {
	return size < streamWindow && consumed >= int64(size/2), p >= pressureMedium
}

// nextStreamWindow returns the new size of the receive window of a response. capacity is
// the number of bytes that the client's side could accept now.
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

// readAheadWindow returns the receive window of a response while the client reads nothing.
// It doubles when half full, up to streamWindow, so the container sends at most twice the
// bytes already buffered.
func readAheadWindow(size, buffered uint32) uint32 {
	if size >= streamWindow || buffered < size/2 {
		return size
	}
	return min(2*max(size, buffered, minWindow), streamWindow)
}

// unwrittenLimit is the number of bytes that may be buffered for a peer.
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
// self-clocked window, as TCP's congestion window is (RFC 5681), with a token bucket
// for a container that does not respond:
//
//	event                                 credits
//	a stream of the burst starts          −1
//	its response begins                   +1, and +1 more for each 8th (growth by 1/8 per response time)
//	1 ms passes                           credits above 64 decay by 1/8
//	1 ms passes without a response        +8, up to 64
//
// A burst starts with 64 credits. The first stream of a connection in an iteration of the
// loop needs none, so that clients with few streams are not delayed.
type pacing struct {
	credits    int   // streams that may start
	refilledAt int64 // last whole interval
	responses  uint8 // since the last extra credit
	noResponse bool  // since refilledAt
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

// responded adds the credits for the response to a paced stream. waiting reports whether
// other streams wait to start; if none do, the window does not grow.
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

// nextAt returns when a stream may start; 0 = now.
func (p *pacing) nextAt() int64 {
	if p.credits > 0 {
		return 0
	}
	return p.refilledAt + refillInterval
}

// Work of the pacer in one iteration of the loop, in units of about 6 µs.
const (
	unitsPerIteration = 64
	dialUnits         = 7 // in addition to 1 per stream, if it opens a connection
	resetUnits        = 1 // in addition to 1, if the stream only has to be ended
)

// dialPause is the pause of a burst after an iteration that opened connections. Without
// it, the loop and the container would use up their CPU time slices, and the scheduler
// would run them late for the requests of other clients.
const dialPause = int64(time.Millisecond)
