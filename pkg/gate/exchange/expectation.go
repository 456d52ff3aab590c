package exchange

import "time"

// continueTimeout is how long a container may be silent about `Expect:
// 100-continue` before the gate asks for the body itself.
const continueTimeout = int64(time.Second)

// expectation is the client's wait for a 100.
type expectation struct {
	waiting    bool  // the client waits, and has not been sent one
	continueAt int64 // when the gate sends one itself; 0 = never
}

func (e *expectation) begin(now int64) { *e = expectation{true, now + continueTimeout} }

// end says that the client waits no longer.
func (e *expectation) end() { *e = expectation{} }

// due reports that it is time for a 100 of the gate's own.
func (e *expectation) due(now int64) bool { return e.continueAt != 0 && now >= e.continueAt }
