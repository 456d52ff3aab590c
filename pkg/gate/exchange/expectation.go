package exchange

import "time"

// continueTimeout is how long the container may leave `Expect: 100-continue` unanswered
// before the gate sends a 100 itself.
const continueTimeout = int64(time.Second)

// expectation tracks a client that waits for a 100 (RFC 9110 section 10.1.1).
type expectation struct {
	waiting    bool  // the client waits and has not been sent a 100
	continueAt int64 // when the gate sends a 100 itself; 0 = never
}

func (e *expectation) begin(now int64) { *e = expectation{true, now + continueTimeout} }

// end notes that the client no longer waits.
func (e *expectation) end() { *e = expectation{} }

// due reports that the gate must send a 100 itself.
func (e *expectation) due(now int64) bool { return e.continueAt != 0 && now >= e.continueAt }
