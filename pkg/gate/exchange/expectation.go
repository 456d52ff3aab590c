package exchange

import "time"

// continueTimeout is how long the gate waits for the container's response to
// `Expect: 100-continue` before it sends a 100 itself.
const continueTimeout = int64(time.Second)

// expectation tracks a client that waits for a 100 (RFC 9110 section 10.1.1). It is the
// instant at which the gate sends a 100 itself, noContinue if the gate sends none, or 0
// if the client does not wait.
type expectation int64

const noContinue expectation = -1

func (e *expectation) begin(now int64) { *e = expectation(now + continueTimeout) }

// end notes that the client no longer waits.
func (e *expectation) end() { *e = 0 }

// responseStarted notes that the response head was received: the gate sends no 100.
func (e *expectation) responseStarted() {
	if *e != 0 {
		*e = noContinue
	}
}

// waiting reports whether the client waits and has not been sent a 100.
func (e expectation) waiting() bool { return e != 0 }

// continueAt returns when the gate sends a 100 itself; 0 = never.
func (e expectation) continueAt() int64 { return int64(max(e, 0)) }

// due reports whether the gate must send a 100 itself.
func (e expectation) due(now int64) bool { return e > 0 && now >= int64(e) }
