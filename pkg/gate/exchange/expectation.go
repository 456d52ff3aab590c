package exchange

import "time"

// continueTimeout is the time for which the gate waits for the container's response to
// `Expect: 100-continue` before it sends a 100 itself.
const continueTimeout = int64(time.Second)

// expectation tracks a client that waits for a 100 (RFC 9110 section 10.1.1). 0: the
// client does not wait. noContinue: it waits, but the gate sends no 100. Positive: the
// time at which the gate sends a 100 itself.
type expectation int64

const noContinue expectation = -1

func (e *expectation) begin(now int64) { *e = expectation(now + continueTimeout) }

func (e *expectation) end() { *e = 0 }

// responseStarted keeps the gate from sending a 100, because a response head has arrived.
func (e *expectation) responseStarted() {
	if *e != 0 {
		*e = noContinue
	}
}

// waiting reports whether the client waits for a 100.
func (e expectation) waiting() bool { return e != 0 }

func (e expectation) continueAt() int64 { return int64(max(e, 0)) }

func (e expectation) due(now int64) bool { return e > 0 && now >= int64(e) }
